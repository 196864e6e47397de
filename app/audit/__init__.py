"""What happened in an organization, for those who answer for it."""

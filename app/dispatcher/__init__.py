"""The calls that Rewind makes itself. Credentials are injected here and nowhere else."""

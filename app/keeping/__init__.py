"""What becomes of journals after their runs: deletion and redaction."""

"""The journal in Postgres: raw asyncpg, one SQL function call per batch of appends."""

"""`/llms.txt`: what this server is, for models."""

LLMS_TXT = """# Rewind

> Durable, deterministic runs of TypeScript scripts written by AI models.

A script is TypeScript with a function `main(input)`. It is started with POST /v1/runs, calls tools of a
toolset, sleeps and waits for signals for as long as it likes, and survives restarts. Every step is in the
run's journal. Authenticate with `Authorization: Bearer` and an API key or a namespace token.

- [OpenAPI document](/openapi.json): every call, its body, its answers and its errors
- [Reference](/docs): the same for people
"""

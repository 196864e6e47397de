"""Tables of the tenancy: who the customer is, its end users' namespaces, and the secrets of both.

They describe what the migrations made; nothing creates tables from them.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Column, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel


class Organization(SQLModel, table=True):
    __tablename__ = "organizations"

    id: UUID = Field(primary_key=True)
    name: str
    created_at: int = Field(sa_type=BigInteger)
    suspended_at: int | None = Field(default=None, sa_type=BigInteger)


class Namespace(SQLModel, table=True):
    __tablename__ = "namespaces"

    id: UUID = Field(primary_key=True)
    organization_id: UUID
    name: str
    labels: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSONB, nullable=False))
    created_at: int = Field(sa_type=BigInteger)
    suspended_at: int | None = Field(default=None, sa_type=BigInteger)


class ApiKey(SQLModel, table=True):
    __tablename__ = "api_keys"

    id: UUID = Field(primary_key=True)
    organization_id: UUID
    name: str = ""
    prefix: str
    secret_sha256: bytes
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    expires_at: int | None = Field(default=None, sa_type=BigInteger)
    revoked_at: int | None = Field(default=None, sa_type=BigInteger)
    created_at: int = Field(sa_type=BigInteger)
    last_used_at: int | None = Field(default=None, sa_type=BigInteger)


class Token(SQLModel, table=True):
    __tablename__ = "tokens"

    id: UUID = Field(primary_key=True)
    organization_id: UUID
    namespace_id: UUID
    name: str = ""
    prefix: str
    secret_sha256: bytes
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    narrow: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSONB, nullable=False))
    expires_at: int | None = Field(default=None, sa_type=BigInteger)
    revoked_at: int | None = Field(default=None, sa_type=BigInteger)
    created_at: int = Field(sa_type=BigInteger)
    last_used_at: int | None = Field(default=None, sa_type=BigInteger)

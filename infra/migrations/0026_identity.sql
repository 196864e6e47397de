-- How else people prove who they are: OpenID providers, authenticator apps, passkeys; and organizations that end.

create table sign_in_steps (
  secret_sha256 bytea primary key,
  kind text collate "C" not null,
  person_id uuid references people (id) on delete cascade,
  body jsonb not null default '{}',
  expires_at bigint not null
);
create index sign_in_steps_person on sign_in_steps (person_id);
create index sign_in_steps_expiry on sign_in_steps (expires_at);
comment on table sign_in_steps is 'What a browser is in the middle of: at a provider, before its code, at a passkey. '
  'The secret is the browser''s, one for each tab; taking a step deletes it.';

create table sso_connections (
  organization_id uuid not null references organizations (id),
  id uuid not null unique,
  name text not null,
  issuer text collate "C" not null,
  client_id text not null,
  client_secret bytea,
  join_role text collate "C" check (join_role in ('viewer', 'developer', 'admin')),
  created_at bigint not null,
  primary key (organization_id, id)
);
comment on table sso_connections is 'OpenID providers of organizations. Each speaks for the addresses of domains that '
  'its organization has proven, and for no others.';
comment on column sso_connections.id is 'Part of its redirect URI: no two providers share one.';
comment on column sso_connections.client_secret is 'Sealed; null: a public client.';
comment on column sso_connections.join_role is 'What people become who sign in and are no members yet; null: they are not let in.';

create table organization_domains (
  organization_id uuid not null references organizations (id),
  domain text collate "C" not null,
  token text not null,
  created_at bigint not null,
  proven_at bigint,
  sso_required_at bigint,
  primary key (organization_id, domain),
  check (sso_required_at is null or proven_at is not null)
);
create index organization_domains_name on organization_domains (domain) where proven_at is not null;
comment on column organization_domains.token is 'What a TXT record of the domain has to hold.';
comment on column organization_domains.sso_required_at is 'Since when members with such an address sign in by SSO only.';

create table recovery_codes (
  person_id uuid not null references people (id) on delete cascade,
  code_sha256 bytea not null,
  created_at bigint not null,
  primary key (person_id, code_sha256)
);
comment on table recovery_codes is '80 random bits each, in place of a code of the app; using one deletes it.';

alter table sessions add column connection_id uuid;
comment on column sessions.connection_id is 'The organization''s provider that it was begun by.';
comment on column sessions.method is 'password, password+code, passkey, or oidc.';

alter table organizations
  add column deleted_at bigint,
  add column purged_at bigint,
  add check (purged_at is null or deleted_at is not null);
create index organizations_deleted on organizations (deleted_at) where deleted_at is not null and purged_at is null;
comment on column organizations.deleted_at is 'Closed since then; an owner may restore it until it is purged.';
comment on column organizations.purged_at is 'The data keys of its namespaces are destroyed, its people and keys are gone.';

create trigger audited after insert or update or delete on sso_connections for each row
  execute function audit_change('sso_connection', 'id', 'name issuer client_id join_role');
create trigger audited after insert or update or delete on organization_domains for each row
  execute function audit_change('domain', 'domain', 'proven_at sso_required_at');

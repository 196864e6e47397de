-- People: who signs in, what they belong to, and what proves it. A person is one e-mail address; an organization's
-- member is a person with a role in it. Secrets are stored as SHA-256 (random ones) or argon2 (passwords).

create table people (
  id uuid primary key,
  email text collate "C" not null unique,
  name text not null default '',
  password_hash text,
  totp_secret bytea,
  totp_since bigint,
  totp_last_step bigint,
  created_at bigint not null
);
comment on column people.email is 'In the form that e-mail addresses are compared in: lower case.';
comment on column people.password_hash is 'argon2id; null: signs in by a provider or a passkey.';
comment on column people.totp_secret is 'Sealed; in force once totp_since is set.';
comment on column people.totp_last_step is 'The last time step that was used: none is accepted twice.';

create table identities (
  issuer text collate "C" not null,
  subject text collate "C" not null,
  person_id uuid not null references people (id) on delete cascade,
  created_at bigint not null,
  primary key (issuer, subject)
);
create index identities_person on identities (person_id);
comment on table identities is 'Accounts at OpenID providers that a person signs in with.';

create table passkeys (
  credential_id bytea primary key,
  person_id uuid not null references people (id) on delete cascade,
  name text not null,
  public_key bytea not null,
  sign_count bigint not null,
  created_at bigint not null,
  last_used_at bigint
);
create index passkeys_person on passkeys (person_id);

create table members (
  organization_id uuid not null references organizations (id),
  person_id uuid not null references people (id) on delete cascade,
  role text collate "C" not null check (role in ('viewer', 'developer', 'admin', 'owner')),
  created_at bigint not null,
  primary key (organization_id, person_id)
);
create index members_person on members (person_id);

create table invitations (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  email text collate "C" not null,
  role text collate "C" not null check (role in ('viewer', 'developer', 'admin', 'owner')),
  secret_sha256 bytea not null unique,
  invited_by uuid not null,
  created_at bigint not null,
  expires_at bigint not null,
  settled_at bigint,
  primary key (organization_id, id)
);
create unique index invitations_open on invitations (organization_id, email) where settled_at is null;
comment on column invitations.settled_at is 'Accepted or withdrawn.';

create table sessions (
  id uuid primary key,
  person_id uuid not null references people (id) on delete cascade,
  secret_sha256 bytea not null unique,
  method text collate "C" not null,
  ip text not null,
  user_agent text not null,
  created_at bigint not null,
  last_used_at bigint not null,
  expires_at bigint not null,
  proven_at bigint not null
);
create index sessions_person on sessions (person_id);
create index sessions_expiry on sessions (expires_at);
comment on column sessions.method is 'password, password+totp, passkey, or oidc:ISSUER.';
comment on column sessions.proven_at is 'When the person last proved who it is: what is dangerous asks for it anew.';

create table signups (
  secret_sha256 bytea primary key,
  email text collate "C" not null,
  password_hash text not null,
  organization text not null,
  created_at bigint not null,
  expires_at bigint not null
);
create index signups_expiry on signups (expires_at);
comment on table signups is 'Asked for, not yet proven: the mailed secret and the password together make the person. So nobody '
  'makes an account of an address that is not theirs, and a link alone lets nobody in.';

create table resets (
  secret_sha256 bytea primary key,
  person_id uuid not null references people (id) on delete cascade,
  created_at bigint not null,
  expires_at bigint not null
);
create index resets_person on resets (person_id);
comment on table resets is 'Mailed secrets that set a new password; each works once: using it deletes it.';

create table mails (
  id uuid primary key,
  recipient text not null,
  subject text not null,
  body text not null,
  created_at bigint not null,
  attempt int not null default 0,
  next_at bigint,
  sent_at bigint,
  error text
);
create index mails_due on mails (next_at) where next_at is not null;
comment on table mails is 'Written in the transaction of what they tell, sent by a loop. Kept for 7 days.';

create table login_failures (
  subject text collate "C" primary key,
  failures int not null,
  since bigint not null,
  blocked_until bigint not null
);
comment on table login_failures is 'Wrong sign-ins by account and by address: `account:` or `address:` and a digest.';

alter table api_keys
  add column allow_ips text[] not null default '{}',
  add column previous_sha256 bytea unique,
  add column previous_until bigint;
comment on column api_keys.allow_ips is 'Networks that it may be used from; none: all.';
comment on column api_keys.previous_sha256 is 'The secret before the last rotation, which works until previous_until.';

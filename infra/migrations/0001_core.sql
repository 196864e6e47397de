-- Rewind's tables. A run is the fold of its entries; runs and pending are the incremental fold, written
-- in the transaction of each append. Everything hot has namespace_id first in its key and no foreign key,
-- so that the schema can be distributed by namespace. Times are integers of ms since 1970 (UTC).

-- Time -------------------------------------------------------------------------------------------------

create table clock (
  one boolean primary key default true check (one),
  offset_ms bigint not null default 0
);
comment on table clock is 'Added to the database clock. Always 0 outside tests: only rewind_test may update it.';
insert into clock default values;

create function now_ms() returns bigint language sql stable as $$
  select (extract(epoch from clock_timestamp()) * 1000)::bigint + (select offset_ms from clock)
$$;
comment on function now_ms() is 'The only source of time of the product.';

-- Tenancy ----------------------------------------------------------------------------------------------

create table organizations (
  id uuid primary key,
  name text not null check (length(name) between 1 and 200),
  created_at bigint not null,
  suspended_at bigint
);

create table namespaces (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  name text collate "C" not null,
  labels jsonb not null default '{}',
  created_at bigint not null,
  suspended_at bigint,
  unique (organization_id, name)
);

create table api_keys (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  name text not null default '',
  prefix text not null,
  secret_sha256 bytea not null unique,
  scopes text[] not null,
  expires_at bigint,
  revoked_at bigint,
  created_at bigint not null,
  last_used_at bigint
);
comment on column api_keys.prefix is 'The first characters of the key, shown so that its owner can recognise it.';

create table tokens (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  namespace_id uuid not null references namespaces (id),
  name text not null default '',
  prefix text not null,
  secret_sha256 bytea not null unique,
  scopes text[] not null,
  narrow jsonb not null default '{}',
  expires_at bigint,
  revoked_at bigint,
  created_at bigint not null,
  last_used_at bigint
);

create table idempotency (
  organization_id uuid not null,
  namespace_id uuid not null,
  route text collate "C" not null,
  key text collate "C" not null,
  request_sha256 bytea not null,
  object_id text not null,
  created_at bigint not null,
  primary key (organization_id, namespace_id, route, key)
);
comment on column idempotency.namespace_id is 'All zeros for calls that belong to no namespace.';

-- Toolsets and scripts ---------------------------------------------------------------------------------

create table toolset_versions (
  organization_id uuid not null,
  name text collate "C" not null,
  digest text collate "C" not null,
  definition jsonb not null,
  created_at bigint not null,
  primary key (organization_id, name, digest)
);
comment on table toolset_versions is 'Pinned tools, immutable. `latest` of a name stands in toolsets.';

create table toolsets (
  organization_id uuid not null,
  id uuid not null,
  name text collate "C" not null,
  digest text collate "C" not null,
  updated_at bigint not null,
  disabled jsonb not null default '{}',
  primary key (organization_id, name)
);

comment on column toolsets.disabled is 'Tools of the latest version that cannot be called, each with the reason: what the '
  'last refresh found.';

create table scripts (
  namespace_id uuid not null,
  digest text collate "C" not null,
  source text not null,
  created_at bigint not null,
  primary key (namespace_id, digest)
);

create table compiled_scripts (
  namespace_id uuid not null,
  digest text collate "C" not null,
  epoch smallint not null,
  compiled jsonb not null,
  created_at bigint not null,
  primary key (namespace_id, digest, epoch)
);
comment on table compiled_scripts is 'What the epoch''s stripper made of a script, so that replay never strips again.';

-- Runs and journals ------------------------------------------------------------------------------------

create table runs (
  namespace_id uuid not null,
  run_id uuid not null,
  status smallint not null default 0,
  epoch smallint not null,
  next_seq int not null,
  commands int not null default 0,
  last_time bigint not null,
  last_event int not null,
  delivered int not null default -1,
  owner bigint,
  owner_epoch int not null default 0,
  ready boolean not null,
  cancel_seq int,
  cpu_us bigint not null default 0,
  activations int not null default 0,
  calls int not null default 0,
  primary key (namespace_id, run_id)
) with (fillfactor = 60);
comment on column runs.status is '0 active, 1 completed, 2 failed, 3 cancelled, 4 aborted, 5 quarantined.';
comment on column runs.commands is 'Commands recorded: part of the guard of a command append.';
comment on column runs.last_time is 'Time of the last event; the next event is not earlier.';
comment on column runs.last_event is 'Seq of the last event that is delivered to the script.';
comment on column runs.delivered is 'Seq of the last event that the owner finished: survived, with its commands appended.';
comment on column runs.cancel_seq is 'Of the cancel_requested; null while nobody has asked.';
comment on column runs.owner_epoch is 'Counts the owners: an append of a former owner is refused.';
comment on column runs.ready is 'An event waits and nobody owns the run. Changed only together with owner, so that '
  'appends to an owned run update no index.';
create index runs_ready on runs (namespace_id, run_id) where ready;
create index runs_owner on runs (owner) where owner is not null;

create table run_facts (
  namespace_id uuid not null,
  run_id uuid not null,
  organization_id uuid not null,
  status smallint not null default 0,
  script text collate "C" not null,
  toolset text collate "C",
  toolset_digest text collate "C",
  workflow text collate "C",
  labels jsonb not null default '{}',
  created_by_kind text not null,
  created_by_id text not null,
  parent jsonb,
  started_at bigint not null,
  ended_at bigint,
  end_seq int,
  deadline bigint not null,
  progress bytea,
  primary key (namespace_id, run_id)
);
comment on table run_facts is 'What lists and filters read; written at the start and at the end of a run only '
  '(and progress, when the script reports it).';
create index run_facts_status on run_facts (namespace_id, status, run_id);

create table entries (
  namespace_id uuid not null,
  run_id uuid not null,
  seq int not null,
  type smallint not null,
  time bigint not null,
  cause int,
  fire_at bigint,
  n int,
  body bytea not null check (octet_length(body) <= 400000),
  primary key (namespace_id, run_id, seq)
);
comment on table entries is 'The journals. Append-only: no role but rewind_retention may update or delete.';
comment on column entries.fire_at is 'start_timer only: the append''s database time plus the delay.';
comment on column entries.n is 'Number of the call, timer or wait that the entry is about; of a signal, a digest of its id: '
  'what entries are found by, since Postgres cannot read their bodies.';
comment on column entries.body is 'Canonical JSON of the entry''s own fields (not seq, type, time, cause, fire_at), sealed under '
  'the namespace''s key and bound to run and type.';
alter table entries alter body set storage main;

create table pending (
  namespace_id uuid not null,
  run_id uuid not null,
  kind smallint not null,
  n int not null,
  seq int not null,
  since bigint not null,
  line int,
  name text collate "C",
  due bigint,
  due_why smallint,
  organization_id uuid,
  toolset text collate "C",
  route smallint,
  idempotent boolean not null default false,
  gated boolean not null default false,
  deferred boolean not null default false,
  stopping boolean not null default false,
  available_at bigint,
  timeout_ms bigint,
  attempt smallint not null default 0,
  releases int not null default 0,
  begun_at bigint,
  claim_id uuid,
  lease_until bigint,
  handed boolean not null default false,
  primary key (namespace_id, run_id, kind, n)
) with (autovacuum_vacuum_scale_factor = 0.05);
comment on table pending is 'One row per thing that a run waits for, inserted by its command and deleted by the event '
  'that settles it: that delete is the guard of an event append.';
comment on column pending.kind is '0 tool call, 1 timer, 2 signal wait, 4 deadline of the run, 5 its start.';
comment on column pending.name is 'The tool, the signal, or why the timer was started.';
comment on column pending.due is 'When the scheduler acts: timers fire; for calls see due_why.';
comment on column pending.due_why is 'Calls: 1 the call''s timeout, 2 told to stop (cancelled), 3 clean-up call, 4 deferral expires.';
comment on column pending.route is 'Calls: 0 host tool (claimed by workers of the customer), 1 dispatcher; '
  '2 and 3 the same, kept back while as many calls of the run as may be are in flight.';
comment on column pending.attempt is 'Attempts begun; 0: not begun, may be withdrawn.';
comment on column pending.releases is 'How often the call was given back unstarted; with the attempt it names one lease.';
comment on column pending.claim_id is 'The claim that holds the lease; the same claim_id again is answered with the same tasks. '
  'Without a lease: the child run that the call waits for.';
create index pending_offered on pending (organization_id, namespace_id, run_id, n)
  where kind = 0 and route = 0 and claim_id is null and not gated and not deferred;
create index pending_claim on pending (claim_id) where claim_id is not null;
comment on column pending.handed is 'A claim was answered with this lease; false: an append leased the call to a claim that was parked.';
create index pending_lease on pending (lease_until) where lease_until is not null;
create index pending_due on pending (due) where due is not null;

create table signal_ids (
  namespace_id uuid not null,
  run_id uuid not null,
  signal_id text collate "C" not null,
  seq int not null,
  primary key (namespace_id, run_id, signal_id)
);
comment on table signal_ids is 'Signals are unique by id within a run while it is active.';

create table quarantines (
  namespace_id uuid not null,
  run_id uuid not null,
  at bigint not null,
  report bytea not null,
  released_at bigint,
  primary key (namespace_id, run_id, at)
);

-- Processes --------------------------------------------------------------------------------------------

create table workers (
  worker_id bigint primary key,
  host text not null,
  pid int not null,
  started_at bigint not null,
  heartbeat_at bigint not null,
  epochs smallint[] not null
);
comment on table workers is 'Live worker processes. Each holds the advisory lock worker_id; a free lock means dead.';

create unlogged table sandbox_requests (
  id uuid primary key,
  namespace_id uuid not null,
  kind text not null,
  payload bytea not null,
  created_at bigint not null,
  deadline bigint not null,
  worker_id bigint,
  answered_at bigint,
  answer bytea,
  failure bytea
);
comment on table sandbox_requests is 'What the control plane asks of the sandbox (strip, check, replay). Unlogged: lost in a '
  'crash of Postgres, then asked again.';
create index sandbox_requests_open on sandbox_requests (created_at) where answered_at is null;

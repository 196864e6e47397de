-- Replays that took longer than their request waited: what came out, kept for a day.

create table replays (
  namespace_id uuid not null,
  run_id uuid not null,
  id uuid not null,
  created_at bigint not null,
  deadline bigint not null,
  answer bytea,
  primary key (namespace_id, run_id, id)
);
comment on table replays is 'Results of POST /runs/{id}/replay that were not ready in time; the replay itself is a row of '
  'sandbox_requests. answer: sealed, null while it runs; past its deadline it is lost, and may be asked for again.';
create index replays_by_age on replays (namespace_id, created_at);

-- Webhooks. An event is one row, written in the transaction of what caused it; a projector gives it its body and
-- one delivery for each endpoint that wants it; senders lease deliveries that are due. Whoever dies leaves a
-- lease that ends: an event is delivered at least once.

create table webhook_endpoints (
  organization_id uuid not null,
  id uuid not null,
  url text not null,
  secret bytea not null,
  previous_secret bytea,
  previous_until bigint,
  events text[] not null default '{}',
  namespaces text[] not null default '{}',
  labels jsonb not null default '{}',
  created_at bigint not null,
  failing_since bigint,
  disabled_at bigint,
  disabled_reason text,
  primary key (organization_id, id)
);
comment on column webhook_endpoints.secret is 'Sealed under the deployment''s secret key.';
comment on column webhook_endpoints.previous_secret is 'Signs too until previous_until: receivers change over meanwhile.';
comment on column webhook_endpoints.events is 'Types that it wants; empty: all. Likewise namespaces (names) and labels.';
comment on column webhook_endpoints.failing_since is 'First failure since the last success; null: it works.';

create table events (
  namespace_id uuid not null,
  id uuid not null,
  organization_id uuid not null,
  type text collate "C" not null,
  run_id uuid,
  sequence int,
  call int,
  endpoint_id uuid,
  at bigint not null,
  body bytea,
  primary key (namespace_id, id)
);
comment on table events is 'What webhooks tell, kept for 30 days. namespace_id is all zeros where no namespace is concerned.';
comment on column events.sequence is 'Seq of the journal entry that caused it.';
comment on column events.endpoint_id is 'Only for this endpoint (ping).';
comment on column events.body is 'The whole message, sealed under the namespace''s key; null until projected.';
create index events_unprojected on events (at) where body is null;
create index events_listed on events (organization_id, id);
create index events_at on events (at);

create table deliveries (
  organization_id uuid not null,
  endpoint_id uuid not null,
  id uuid not null,
  namespace_id uuid not null,
  event_id uuid not null,
  type text collate "C" not null,
  status text collate "C" not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempt int not null default 0,
  failures int not null default 0,
  created_at bigint not null,
  at bigint,
  next_at bigint,
  lease_until bigint,
  response_code int,
  response_body text,
  error text,
  duration_ms int,
  primary key (organization_id, endpoint_id, id),
  unique (organization_id, endpoint_id, event_id)
);
comment on column deliveries.attempt is 'Attempts made so far.';
comment on column deliveries.failures is 'Place in the schedule of retries; a redelivery begins it anew.';
comment on column deliveries.next_at is 'When it is tried next; null: not again.';
comment on column deliveries.lease_until is 'A sender is at it until then at the latest.';
create index deliveries_due on deliveries (next_at) where next_at is not null;
create index deliveries_waiting on deliveries (organization_id, endpoint_id, next_at) where next_at is not null;
create index deliveries_leased on deliveries (organization_id, endpoint_id, lease_until) where lease_until is not null;
create index deliveries_event on deliveries (namespace_id, event_id);

create function uuid_v7(p_at bigint) returns uuid language sql volatile as $$
  select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send(p_at) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
$$;

create function emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence int, p_call int)
returns void language sql as $$
  insert into events (namespace_id, id, organization_id, type, run_id, sequence, call, at)
    select p_ns, uuid_v7(at), p_organization, p_type, p_run, p_sequence, p_call, at from (select now_ms() as at) now
$$;
comment on function emit_event is 'Called in the transaction of what it tells.';

create or replace function end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq int, p_at bigint) returns void
language plpgsql as $$
declare
  org uuid;
begin
  update runs set status = p_status, owner = null, ready = false where namespace_id = p_ns and run_id = p_run;
  delete from pending where namespace_id = p_ns and run_id = p_run;
  delete from signal_ids where namespace_id = p_ns and run_id = p_run;
  update run_facts set status = p_status, ended_at = p_at, end_seq = p_seq
    where namespace_id = p_ns and run_id = p_run returning organization_id into org;
  perform emit_event(p_ns, org, (array['run.completed', 'run.failed', 'run.cancelled', 'run.aborted'])[p_status],
    p_run, p_seq, null);
end $$;

create or replace function quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea) returns void
language plpgsql as $$
declare
  org uuid;
begin
  update runs set status = 5, owner = null, ready = false
    where namespace_id = p_ns and run_id = p_run and status = 0 and owner = p_worker;
  if not found then return; end if;
  update run_facts set status = 5 where namespace_id = p_ns and run_id = p_run returning organization_id into org;
  update pending set due = null where namespace_id = p_ns and run_id = p_run and kind = 4;
  insert into quarantines (namespace_id, run_id, at, report) values (p_ns, p_run, now_ms(), p_report);
  perform emit_event(p_ns, org, 'run.quarantined', p_run, null, null);
end $$;

-- Each endpoint has its share: one that is slow or has a long backlog holds up nobody else.
create function claim_deliveries(p_limit int, p_per_endpoint int, p_lease_ms bigint)
returns table (organization_id uuid, endpoint_id uuid, id uuid, namespace_id uuid, event_id uuid, attempt int,
  failures int, url text, secret bytea, previous_secret bytea, body bytea)
language sql as $$
  with now as materialized (select now_ms() as at),
  waiting as (
    select distinct d.organization_id, d.endpoint_id from deliveries d, now where d.next_at <= now.at),
  due as (
    select found.* from now, waiting w
      join webhook_endpoints e on e.organization_id = w.organization_id and e.id = w.endpoint_id
        and e.disabled_at is null
      cross join lateral (
        select d.organization_id, d.endpoint_id, d.id from deliveries d
        where d.organization_id = e.organization_id and d.endpoint_id = e.id and d.next_at <= now.at
        order by d.next_at
        limit greatest(0, p_per_endpoint - (select count(*) from deliveries b where b.organization_id = e.organization_id
          and b.endpoint_id = e.id and b.lease_until > now.at))
        for update of d skip locked) found
    limit p_limit),
  leased as (
    update deliveries d set attempt = d.attempt + 1, at = now.at, next_at = now.at + p_lease_ms,
        lease_until = now.at + p_lease_ms
      from due, now where d.organization_id = due.organization_id and d.endpoint_id = due.endpoint_id and d.id = due.id
      returning d.*)
  select l.organization_id, l.endpoint_id, l.id, l.namespace_id, l.event_id, l.attempt, l.failures, e.url, e.secret,
    case when e.previous_until > now.at then e.previous_secret end, v.body
  from leased l, now, webhook_endpoints e, events v
  where e.organization_id = l.organization_id and e.id = l.endpoint_id
    and v.namespace_id = l.namespace_id and v.id = l.event_id and v.body is not null
$$;
comment on function claim_deliveries is 'An attempt that is never reported is made again when its lease has ended.';

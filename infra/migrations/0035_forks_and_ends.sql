-- An operator may give up a fork that is not made yet; a former claim of the same worker quarantines nothing; what a
-- fork holds may cancel it; a run's end is never before its last entry.

drop function quarantine_run(bigint, uuid, uuid, bytea);

create or replace function append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n int, p_attempt smallint,
  p_signal text, p_type smallint, p_body bytea, p_not_before bigint) returns event_verdict
language plpgsql as $$
declare
  r runs%rowtype;
  at bigint;
  known int;
  undecided boolean;
begin
  select * into r from runs where namespace_id = p_ns and run_id = p_run for no key update;
  if not found then return ('unknown', null, null, null)::event_verdict; end if;
  if r.status not in (0, 5) then return ('ended', null, null, null)::event_verdict; end if;
  if p_guard = 4 and r.status = 5 then
    return ('not_pending', null, null, null)::event_verdict;  -- the deadline waits while a run is quarantined
  end if;
  if r.forking then return hold_event(p_ns, p_run, p_guard, p_n, p_signal, p_type, p_body, p_not_before); end if;

  if p_guard = 0 then
    delete from pending where namespace_id = p_ns and run_id = p_run and kind = 0 and n = p_n
      and (p_attempt is null or attempt = p_attempt) returning gated into undecided;
    if not found then return ('not_pending', null, null, null)::event_verdict; end if;
    if r.calls > calls_in_flight_max() then perform offer_next_call(p_ns, p_run); end if;
    if undecided then perform withdraw_approval(p_ns, p_run, p_n, now_ms()); end if;
  elsif p_guard = 1 then
    delete from pending where namespace_id = p_ns and run_id = p_run and kind = 1 and n = p_n;
    if not found then return ('not_pending', null, null, null)::event_verdict; end if;
  elsif p_guard = 10 then
    select seq into known from signal_ids where namespace_id = p_ns and run_id = p_run and signal_id = p_signal;
    if found then return ('duplicate', known, null, null)::event_verdict; end if;
    -- 45,000 of 50,000 entries: what is left is kept for the outcomes of calls and for the end.
    if r.next_seq >= 45000 then return ('history_full', null, null, null)::event_verdict; end if;
    insert into signal_ids (namespace_id, run_id, signal_id, seq) values (p_ns, p_run, p_signal, r.next_seq);
  elsif p_guard in (4, 11) then
    if r.cancel_seq is not null then return ('duplicate', null, null, null)::event_verdict; end if;
    delete from pending where namespace_id = p_ns and run_id = p_run and kind = 4;
    if not found and p_guard = 4 then return ('not_pending', null, null, null)::event_verdict; end if;
    if r.delivered < 0 then  -- a run that waits for its start waits no more: it ends without having begun
      delete from pending where namespace_id = p_ns and run_id = p_run and kind = 5;
    end if;
  elsif p_guard = 12 then
    if r.cancel_seq is null or exists (select from pending where namespace_id = p_ns and run_id = p_run and kind = 0)
      then return ('not_pending', null, null, null)::event_verdict; end if;
  elsif p_guard = 13 then
    if r.status <> 5 or not exists (select from pending where namespace_id = p_ns and run_id = p_run and kind = 6)
      then return ('not_pending', null, null, null)::event_verdict; end if;
    if exists (select from pending where namespace_id = p_ns and run_id = p_run and kind = 0) then
      update pending set due = now_ms() + 500 where namespace_id = p_ns and run_id = p_run and kind = 6;
      return ('not_pending', null, null, null)::event_verdict;
    end if;
  else
    raise exception 'unknown guard %', p_guard;
  end if;

  at := greatest(r.last_time, now_ms(), p_not_before);
  insert into entries (namespace_id, run_id, seq, type, time, n, body)
    values (p_ns, p_run, r.next_seq, p_type, at, nullif(p_n, 0), p_body);
  update runs set next_seq = r.next_seq + 1, last_time = at,
      last_event = case when p_guard in (12, 13) then last_event else r.next_seq end,
      cancel_seq = case when p_guard in (4, 11) then r.next_seq else cancel_seq end,
      ready = owner is null and status = 0 and (r.delivered >= 0 or not exists (
        select from pending where namespace_id = p_ns and run_id = p_run and kind = 5))
    where namespace_id = p_ns and run_id = p_run;
  if p_guard in (12, 13) then perform end_run(p_ns, p_run, 4::smallint, r.next_seq, at); end if;
  return ('appended', r.next_seq, at, r.owner)::event_verdict;
end $$;

-- Round-robin over namespaces: each gets an equal share of the claim, found by skipping from one

-- namespace to the next along the index, so that one tenant's burst is not even read.

-- p_busy says how many runs of which namespace the worker has at work; none gets more than p_share of them.

-- p_free: how many more calls the servers named by (p_org, p_toolset, p_server) may get; others get p_server_max.

-- Within a server, namespaces take turns. p_full: organizations that have enough in flight.

create or replace function quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea, p_owner_epoch int)
  returns void
language plpgsql as $$
declare
  org uuid;
begin
  update runs set status = 5, owner = null, ready = false
    where namespace_id = p_ns and run_id = p_run and status = 0 and owner = p_worker
      and owner_epoch = coalesce(p_owner_epoch, owner_epoch);
  if not found then return; end if;
  update run_facts set status = 5 where namespace_id = p_ns and run_id = p_run returning organization_id into org;
  update pending set due = null where namespace_id = p_ns and run_id = p_run and kind = 4;
  insert into quarantines (namespace_id, run_id, at, report) values (p_ns, p_run, now_ms(), p_report);
  perform emit_event(p_ns, org, 'run.quarantined', p_run, null, null);
end $$;

-- A fork that ends with what it reuses: what came meanwhile was accepted, so it is recorded, before the end. Nothing

-- delivers it any more, as with what comes to any run while its end is being made.

create or replace function record_held(p_ns uuid, p_run uuid, p_known text[]) returns int language plpgsql as $$
declare
  r runs%rowtype;
  held held_events%rowtype;
begin
  select * into r from runs where namespace_id = p_ns and run_id = p_run;
  for held in select * from held_events where namespace_id = p_ns and run_id = p_run
    and (signal_id is null or signal_id <> all (p_known)) order by n
  loop
    r.last_time := greatest(r.last_time, now_ms(), held.not_before);
    insert into entries (namespace_id, run_id, seq, type, time, n, body)
      values (p_ns, p_run, r.next_seq, held.type, r.last_time, nullif(held.entry_n, 0), held.body);
    if held.guard = 11 then r.cancel_seq := r.next_seq; end if;
    r.next_seq := r.next_seq + 1;
  end loop;
  delete from held_events where namespace_id = p_ns and run_id = p_run;
  update runs set next_seq = r.next_seq, last_time = r.last_time, cancel_seq = r.cancel_seq
    where namespace_id = p_ns and run_id = p_run;
  return r.next_seq;
end $$;

-- A fork that an operator gives up before it is made: what is recorded of it stands, its calls are pending, to be

-- withdrawn, and what was held is recorded. Chunks hold whole activations, so that the rest matches a replay.

create or replace function leave_fork(p_ns uuid, p_run uuid) returns void language plpgsql as $$
declare
  held held_events%rowtype;
begin
  update runs set forking = false, (commands, calls, delivered, last_event) = (
      select count(e.cause), count(*) filter (where e.type = 2), coalesce(max(e.cause), -1),
        max(e.seq) filter (where e.cause is null)
      from entries e where e.namespace_id = p_ns and e.run_id = p_run)
    where namespace_id = p_ns and run_id = p_run;
  insert into pending (namespace_id, run_id, kind, n, seq, since, organization_id)
    select p_ns, p_run, 0, e.n, e.seq, now_ms(), f.organization_id
    from entries e join run_facts f on f.namespace_id = e.namespace_id and f.run_id = e.run_id
    where e.namespace_id = p_ns and e.run_id = p_run and e.type = 2 and not exists (select from entries o
      where o.namespace_id = p_ns and o.run_id = p_run and o.type = 5 and o.n = e.n);
  for held in select * from held_events h where h.namespace_id = p_ns and h.run_id = p_run and not exists (
      select from entries e where e.namespace_id = p_ns and e.run_id = p_run and e.type = 11 and h.type = 11
        and e.n = h.entry_n) order by h.n
  loop
    perform append_event(p_ns, p_run, held.guard, held.entry_n, null, held.signal_id, held.type, held.body, held.not_before);
  end loop;
  delete from held_events where namespace_id = p_ns and run_id = p_run;
end $$;

-- After the last chunk, in its transaction: from here on the run is like any other.

create or replace function finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered int, p_last_event int, p_commands int,
  p_calls int, p_cpu bigint, p_activations int, p_cancel_seq int, p_ending smallint, p_progress bytea,
  p_organization uuid, p_toolset text, s_id text[], s_seq int[],
  c_kind smallint[], c_n int[], c_seq int[], c_line int[], c_name text[], c_route smallint[], c_idempotent boolean[],
  c_gated boolean[], c_timeout bigint[], c_expires bigint[], c_pace text[], out next int)
language plpgsql as $$
declare
  at bigint := now_ms();
  held held_events%rowtype;
begin
  update runs set forking = false, delivered = p_delivered, last_event = p_last_event, commands = p_commands,
      calls = p_calls, cpu_us = p_cpu, activations = p_activations, cancel_seq = coalesce(p_cancel_seq, cancel_seq)
    where namespace_id = p_ns and run_id = p_run returning next_seq into next;
  update run_facts set fork_report = p_report, progress = coalesce(p_progress, progress)
    where namespace_id = p_ns and run_id = p_run;
  insert into signal_ids (namespace_id, run_id, signal_id, seq) select p_ns, p_run, * from unnest(s_id, s_seq);
  insert into pending (namespace_id, run_id, kind, n, seq, since, line, name, due, due_why, organization_id, toolset,
      route, idempotent, gated, timeout_ms, pace)
    select p_ns, p_run, c.kind, c.n, c.seq, at, c.line, c.name,
      case when c.kind = 1 then (select e.fire_at from entries e
        where e.namespace_id = p_ns and e.run_id = p_run and e.seq = c.seq) when c.gated then at + c.expires end,
      case when c.gated and c.expires is not null then 5 end,
      case when c.kind = 0 then p_organization end, case when c.kind = 0 then p_toolset end,
      c.route + case when c.kind = 0 and row_number() over (partition by c.kind order by c.n) > calls_in_flight_max()
        then 2 else 0 end,
      c.idempotent, c.gated, c.timeout, c.pace::jsonb
    from unnest(c_kind, c_n, c_seq, c_line, c_name, c_route, c_idempotent, c_gated, c_timeout, c_expires, c_pace)
      c (kind, n, seq, line, name, route, idempotent, gated, timeout, expires, pace);
  perform request_approval(p_ns, p_run, p_organization, c.n, c.seq, c.name, at, c.expires)
    from unnest(c_n, c_seq, c_name, c_gated, c_expires) c (n, seq, name, gated, expires) where c.gated and p_ending is null;
  if p_ending is not null then
    perform end_run(p_ns, p_run, p_ending, next - 1, at);
  end if;
  for held in select * from held_events where namespace_id = p_ns and run_id = p_run order by n loop
    perform append_event(p_ns, p_run, held.guard, held.entry_n, null, held.signal_id, held.type, held.body, held.not_before);
  end loop;
  delete from held_events where namespace_id = p_ns and run_id = p_run;
  select next_seq into next from runs where namespace_id = p_ns and run_id = p_run;
end $$;

-- Calls that have not begun, or were deferred, are due now; begun ones are told to stop and have 30 s. The scheduler

-- settles them, and appends the end when none is left. False: the run is not quarantined.

create or replace function abandon_quarantined(p_ns uuid, p_run uuid) returns boolean language plpgsql as $$
declare
  at bigint := now_ms();
  unmade boolean;
begin
  select forking into unmade from runs where namespace_id = p_ns and run_id = p_run and status = 5 for no key update;
  if not found then return false; end if;
  if unmade then perform leave_fork(p_ns, p_run); end if;
  update pending set stopping = true, due_why = case when deferred then 6 else 2 end,
      due = case when attempt = 0 or deferred then at else at + 30000 end
    where namespace_id = p_ns and run_id = p_run and kind = 0 and not stopping;
  insert into pending (namespace_id, run_id, kind, n, seq, since, due) values (p_ns, p_run, 6, 0, 0, at, at)
    on conflict do nothing;
  return true;
end $$;

create or replace function end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq int, p_at bigint) returns void
language plpgsql as $$
declare
  org uuid;
  par jsonb;
  latest bigint;
begin
  update runs set status = p_status, owner = null, ready = false where namespace_id = p_ns and run_id = p_run
    returning last_time into latest;
  delete from pending where namespace_id = p_ns and run_id = p_run;
  delete from signal_ids where namespace_id = p_ns and run_id = p_run;
  update run_facts set status = p_status, ended_at = greatest(p_at, latest), end_seq = p_seq
    where namespace_id = p_ns and run_id = p_run returning organization_id, parent into org, par;
  perform emit_event(p_ns, org, (array['run.completed', 'run.failed', 'run.cancelled', 'run.aborted'])[p_status],
    p_run, p_seq, null);
  if par ->> 'kind' = 'workflow' then
    insert into child_outbox values (p_ns, p_run, false, p_at) on conflict do nothing;
  end if;
  if p_status <> 1 then
    insert into child_outbox select f.namespace_id, f.run_id, true, p_at from run_facts f
      where f.namespace_id = p_ns and f.parent ->> 'run' = p_run::text and (f.parent ->> 'awaited')::boolean
        and f.status in (0, 5)
      on conflict do nothing;
  end if;
end $$;

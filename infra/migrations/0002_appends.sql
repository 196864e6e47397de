-- The two kinds of append. Both lock the run's row first, so seqs have no gaps and times do not go back.
-- Callers pass items sorted by (namespace, run): every batch locks runs in one order, then pending.
-- Verdicts are returned, never raised; an exception means a fault, and the caller then isolates the item.

create type event_verdict as (outcome text, seq int, at bigint, owner bigint);

create function end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq int, p_at bigint) returns void
language plpgsql as $$
begin
  update runs set status = p_status, owner = null, ready = false where namespace_id = p_ns and run_id = p_run;
  delete from pending where namespace_id = p_ns and run_id = p_run;
  delete from signal_ids where namespace_id = p_ns and run_id = p_run;
  update run_facts set status = p_status, ended_at = p_at, end_seq = p_seq
    where namespace_id = p_ns and run_id = p_run;
end $$;

-- What SPEC says a run may have in flight. Calls beyond it are recorded, and offered as others are settled.
create function calls_in_flight_max() returns int language sql immutable as 'select 1000';

create function offer_next_call(p_ns uuid, p_run uuid) returns void
language sql as $$
  update pending set route = route - 2 where namespace_id = p_ns and run_id = p_run and kind = 0
    and n = (select n from pending where namespace_id = p_ns and run_id = p_run and kind = 0 and route >= 2
      order by n limit 1)
$$;

create function append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n int, p_attempt smallint,
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
  elsif p_guard = 4 and r.status = 5 then
    return ('not_pending', null, null, null)::event_verdict;  -- the deadline waits while a run is quarantined
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

create function append_events(p_ns uuid[], p_run uuid[], p_guard smallint[], p_n int[], p_attempt smallint[],
  p_signal text[], p_type smallint[], p_body bytea[], p_not_before bigint[],
  out outcomes text[], out seqs int[], out times bigint[], out owners bigint[])
language plpgsql as $$
declare
  v event_verdict;
begin
  for i in 1 .. cardinality(p_run) loop
    v := append_event(p_ns[i], p_run[i], p_guard[i], p_n[i], p_attempt[i], p_signal[i], p_type[i], p_body[i],
      p_not_before[i]);
    outcomes[i] := v.outcome; seqs[i] := v.seq; times[i] := v.at; owners[i] := v.owner;
  end loop;
end $$;

-- One array element per run (p_*) and per command (c_*, the runs' commands one after the other, p_count each).
-- One function for the batch: PL/pgSQL unpacks an array argument once per call.
create function append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch int[], p_before int[],
  p_delivered int[], p_cpu bigint[], p_activations int[], p_organization uuid[], p_toolset text[],
  p_progress bytea[], p_waits text[], p_calls int[], p_count int[],
  c_type smallint[], c_cause int[], c_time bigint[], c_body bytea[], c_n int[], c_name text[], c_line int[],
  c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[],
  c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[],
  out appended boolean[], out firsts int[], out nexts int[], out at bigint)
language plpgsql as $$
declare
  r runs%rowtype;
  ns uuid;
  run uuid;
  s int;
  m int := 0;
  fires bigint;
  ending smallint;
  withdrawn bytea[];
  withdrawn_n int[];
  in_flight int;
  undecided boolean;
begin
  at := now_ms();
  for i in 1 .. cardinality(p_run) loop
    ns := p_ns[i]; run := p_run[i];
    update runs set next_seq = next_seq + p_count[i], commands = commands + p_count[i], delivered = p_delivered[i],
        cpu_us = cpu_us + p_cpu[i], activations = activations + p_activations[i], calls = calls + p_calls[i]
      where namespace_id = ns and run_id = run and owner = p_worker and owner_epoch = p_owner_epoch[i]
        and commands = p_before[i] and status = 0
      returning * into r;
    appended[i] := found; firsts[i] := null; nexts[i] := null;
    if not found then m := m + p_count[i]; continue; end if;
    s := r.next_seq - p_count[i];
    firsts[i] := s;
    ending := null;
    withdrawn := '{}'; withdrawn_n := '{}';
    in_flight := null;
    if p_calls[i] > 0 and r.calls > calls_in_flight_max() and r.cancel_seq is null then
      select count(*) into in_flight from pending
        where namespace_id = ns and run_id = run and kind = 0 and route < 2;
    end if;

    for k in 1 .. p_count[i] loop
      m := m + 1;
      fires := case when c_type[m] = 6 then coalesce(c_due[m], at + c_delay[m]) end;
      insert into entries (namespace_id, run_id, seq, type, time, cause, fire_at, n, body)
        values (ns, run, s, c_type[m], c_time[m], c_cause[m], fires, nullif(c_n[m], 0), c_body[m]);
      case c_type[m]
        when 2 then
          insert into pending (namespace_id, run_id, kind, n, seq, since, line, name, organization_id, toolset,
              route, idempotent, gated, timeout_ms, pace, due, due_why, claim_id, lease_until, attempt, begun_at)
            values (ns, run, 0, c_n[m], s, at, c_line[m], c_name[m], p_organization[i], p_toolset[i],
              c_route[m] + case when in_flight >= calls_in_flight_max() and c_claim[m] is null then 2 else 0 end,
              c_idempotent[m], c_gated[m], c_timeout[m], c_pace[m]::jsonb,
              case when r.cancel_seq is not null then at + case when c_claim[m] is null then 30000 else 300000 end
                when c_gated[m] then at + c_expires[m] when c_claim[m] is not null then at + c_timeout[m] end,
              case when r.cancel_seq is not null then 3 when c_gated[m] and c_expires[m] is not null then 5 when c_claim[m] is not null and c_timeout[m] is not null then 1 end,
              c_claim[m], case when c_claim[m] is not null then at + 30000 end,
              case when c_claim[m] is not null then 1 else 0 end, case when c_claim[m] is not null then at end);
          in_flight := in_flight + 1;
          if c_gated[m] and r.cancel_seq is null then
            perform request_approval(ns, run, p_organization[i], c_n[m], s, c_name[m], at, c_expires[m]);
          end if;
        when 3 then
          delete from pending where namespace_id = ns and run_id = run and kind = 0 and n = c_n[m] and attempt = 0
            returning gated into undecided;
          if found then
            if undecided then perform withdraw_approval(ns, run, c_n[m], at); end if;
            withdrawn := withdrawn || c_withdrawn[m]; withdrawn_n := withdrawn_n || c_n[m];
            if r.calls > calls_in_flight_max() then perform offer_next_call(ns, run); end if;
          else
            update pending set stopping = true, due = at + 30000, due_why = 2
              where namespace_id = ns and run_id = run and kind = 0 and n = c_n[m];
          end if;
        when 6 then
          insert into pending (namespace_id, run_id, kind, n, seq, since, line, name, due)
            values (ns, run, 1, c_n[m], s, at, c_line[m], c_name[m], fires);
        when 8 then
          delete from pending where namespace_id = ns and run_id = run and kind = 1 and n = c_n[m];
        when 9 then
          insert into pending (namespace_id, run_id, kind, n, seq, since, line, name)
            values (ns, run, 2, c_n[m], s, at, c_line[m], c_name[m]);
        when 10 then
          delete from pending where namespace_id = ns and run_id = run and kind = 2 and n = c_n[m];
        when 14 then ending := 1;
        when 15 then ending := 2;
        when 16 then ending := 3;
        else null;
      end case;
      s := s + 1;
    end loop;

    if p_waits[i] <> '{}' then
      delete from pending
        where namespace_id = ns and run_id = run and kind = 2 and n = any (p_waits[i]::int[]);
    end if;
    if p_delivered[i] >= r.cancel_seq then  -- the script saw the cancel: its timers and waits have rejected
      delete from pending where namespace_id = ns and run_id = run and kind in (1, 2);
    end if;
    if p_progress[i] is not null then
      update run_facts set progress = p_progress[i] where namespace_id = ns and run_id = run;
    end if;
    if cardinality(withdrawn) > 0 then
      for k in 1 .. cardinality(withdrawn) loop
        insert into entries (namespace_id, run_id, seq, type, time, n, body)
          values (ns, run, s, 5, greatest(r.last_time, at), withdrawn_n[k], withdrawn[k]);
        s := s + 1;
      end loop;
      update runs set next_seq = s, last_time = greatest(last_time, at), last_event = s - 1
        where namespace_id = ns and run_id = run;
    end if;
    if ending is not null then
      if exists (select from pending where namespace_id = ns and run_id = run and kind = 0) then
        raise exception 'run % ends with a call in flight', run;
      end if;
      perform end_run(ns, run, ending, s - 1, at);
    end if;
    nexts[i] := s;
  end loop;
end $$;
comment on function append_commands is 'p_waits holds one int[] per run in text form: arrays of arrays must be rectangular.';

create function start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea,
  p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb,
  p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean,
  p_fork jsonb default null, p_fork_report bytea default null, out outcome text, out run uuid, out refusal jsonb)
language plpgsql as $$
declare
  known idempotency%rowtype;
begin
  if p_key is not null then
    insert into idempotency (organization_id, namespace_id, route, key, request_sha256, object_id, created_at)
      values (p_organization, p_ns, p_route, p_key, p_request, p_run::text,
        case when p_held or p_fork is not null then now_ms() else p_at end) on conflict do nothing;
    if not found then
      select * into known from idempotency
        where organization_id = p_organization and namespace_id = p_ns and route = p_route and key = p_key;
      run := known.object_id::uuid;
      outcome := case when known.request_sha256 = p_request then 'replayed' else 'conflict' end;
      return;
    end if;
  end if;
  refusal := admit_run(p_ns, p_organization);
  if refusal is not null then  -- nothing is kept of it, its key neither
    delete from idempotency where organization_id = p_organization and namespace_id = p_ns and route = p_route
      and key = p_key;
    outcome := 'refused'; run := p_run;
    return;
  end if;
  insert into runs (namespace_id, run_id, epoch, next_seq, last_time, last_event, ready, forking)
    values (p_ns, p_run, p_epoch, 1, p_at, 0, not p_held, p_fork is not null);
  insert into run_facts (namespace_id, run_id, organization_id, script, toolset, toolset_digest, workflow, labels,
      created_by_kind, created_by_id, parent, started_at, deadline, fork, fork_report)
    values (p_ns, p_run, p_organization, p_script, p_toolset, p_toolset_digest, p_workflow, p_labels,
      p_by_kind, p_by_id, p_parent, coalesce((p_fork ->> 'forked_at')::bigint, p_at), p_deadline, p_fork,
      p_fork_report);
  insert into entries (namespace_id, run_id, seq, type, time, body) values (p_ns, p_run, 0, 1, p_at, p_body);
  insert into pending (namespace_id, run_id, kind, n, seq, since, due) values (p_ns, p_run, 4, 0, 0, p_at, p_deadline);
  if p_held then
    insert into pending (namespace_id, run_id, kind, n, seq, since, due) values (p_ns, p_run, 5, 0, 0, now_ms(), p_at);
  end if;
  outcome := 'started'; run := p_run;
end $$;
comment on function start_run is 'p_held: p_at is ahead; nobody may claim the run before that, or before it is cancelled. '
  'p_fork: the run is a fork (see 0009); p_at is its parent''s time.';

-- The start of held runs has come.
create function begin_runs(p_ns uuid[], p_run uuid[]) returns bigint language sql as $$
  with held as (
    select r.namespace_id, r.run_id from runs r where (r.namespace_id, r.run_id) in (select * from unnest(p_ns, p_run))
    order by r.namespace_id, r.run_id for no key update),
  begun as (
    delete from pending p using held h
    where p.namespace_id = h.namespace_id and p.run_id = h.run_id and p.kind = 5 and p.due <= now_ms()
    returning p.namespace_id, p.run_id),
  freed as (
    update runs r set ready = r.owner is null and r.status = 0 from begun b
    where r.namespace_id = b.namespace_id and r.run_id = b.run_id returning 1)
  select count(*) from freed
$$;

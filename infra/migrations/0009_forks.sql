-- Forks. While a run is `forking` its owner records what it reuses of its parent; whatever else happens to it waits
-- in held_events and is appended with the last of that. Nothing is pending before then: no call can be offered, no
-- timer fire.

alter table runs add column forking boolean not null default false;
comment on column runs.forking is 'A fork whose reused entries are not all recorded yet.';

alter table run_facts add column fork jsonb, add column fork_report bytea;
comment on column run_facts.fork is 'Of forks: {forked_at, at?}.';
comment on column run_facts.fork_report is 'Sealed JSON: what a fork reuses, as the API shows it.';

-- Forks of a run, children of a run: oldest first.
create index run_facts_parent on run_facts (namespace_id, (parent ->> 'run'), run_id) where parent is not null;

create table held_events (
  namespace_id uuid not null,
  run_id uuid not null,
  n int not null,
  guard smallint not null,
  entry_n int not null,
  signal_id text collate "C",
  type smallint not null,
  body bytea not null,
  not_before bigint not null,
  primary key (namespace_id, run_id, n)
);
comment on table held_events is 'Signals and cancels of forks that are still being made, in the order in which they came.';

-- What append_event does to a run that is forking, under its row lock.
create function hold_event(p_ns uuid, p_run uuid, p_guard smallint, p_n int, p_signal text, p_type smallint, p_body bytea,
  p_not_before bigint) returns event_verdict language plpgsql as $$
declare
  held int;
begin
  select count(*) into held from held_events where namespace_id = p_ns and run_id = p_run;
  if p_guard = 10 then
    if exists (select from held_events where namespace_id = p_ns and run_id = p_run and signal_id = p_signal) then
      return ('duplicate', null, null, null)::event_verdict;
    end if;
    if held >= 1000 then return ('history_full', null, null, null)::event_verdict; end if;
  elsif p_guard in (4, 11) then
    if exists (select from held_events where namespace_id = p_ns and run_id = p_run and type = p_type) then
      return ('duplicate', null, null, null)::event_verdict;
    end if;
    delete from pending where namespace_id = p_ns and run_id = p_run and kind = 4;
  else
    return ('not_pending', null, null, null)::event_verdict;
  end if;
  -- The deadline is a cancel from here on: its pending row is gone.
  insert into held_events values (p_ns, p_run, held, case when p_guard = 4 then 11 else p_guard end, p_n, p_signal, p_type,
    p_body, p_not_before);
  return ('appended', null, null, null)::event_verdict;
end $$;

-- A chunk of what a fork reuses, from its owner. p_first guards it: the journal is that long. An event without time
-- gets the time of this append, a timer without fire_at runs from it.
create function append_fork(p_worker bigint, p_ns uuid, p_run uuid, p_owner_epoch int, p_first int,
  e_type smallint[], e_time bigint[], e_cause int[], e_fire_at bigint[], e_delay bigint[], e_n int[], e_body bytea[],
  out appended boolean, out next int, out at bigint)
language plpgsql as $$
declare
  r runs%rowtype;
  seq int := p_first;
  last bigint;
begin
  at := now_ms();
  select * into r from runs where namespace_id = p_ns and run_id = p_run for no key update;
  appended := found and r.forking and r.status = 0 and r.owner = p_worker and r.owner_epoch = p_owner_epoch
    and r.next_seq = p_first;
  if not appended then return; end if;
  last := r.last_time;
  for k in 1 .. cardinality(e_type) loop
    if e_cause[k] is null then last := coalesce(e_time[k], greatest(last, at)); end if;
    insert into entries (namespace_id, run_id, seq, type, time, cause, fire_at, n, body)
      values (p_ns, p_run, seq, e_type[k], coalesce(e_time[k], last), e_cause[k],
        case when e_type[k] = 6 then coalesce(e_fire_at[k], at + e_delay[k]) end, nullif(e_n[k], 0), e_body[k]);
    seq := seq + 1;
  end loop;
  next := seq;
  update runs set next_seq = seq, last_time = last where namespace_id = p_ns and run_id = p_run;
end $$;

-- A fork that ends with what it reuses: what came meanwhile was accepted, so it is recorded, before the end. Nothing
-- delivers it any more, as with what comes to any run while its end is being made.
create function record_held(p_ns uuid, p_run uuid, p_known text[]) returns int language plpgsql as $$
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
    r.next_seq := r.next_seq + 1;
  end loop;
  delete from held_events where namespace_id = p_ns and run_id = p_run;
  update runs set next_seq = r.next_seq, last_time = r.last_time where namespace_id = p_ns and run_id = p_run;
  return r.next_seq;
end $$;

-- After the last chunk, in its transaction: from here on the run is like any other.
create function finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered int, p_last_event int, p_commands int,
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
      calls = p_calls, cpu_us = p_cpu, activations = p_activations, cancel_seq = p_cancel_seq
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

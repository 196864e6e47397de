-- What the scheduler saw to be late may be in time when its event comes: a call that was given back and begun again has
-- the same attempt once more, a lease may have been lengthened. Such an event (p_not_before of a call) settles nothing.

create or replace function append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n int, p_attempt smallint,
  p_signal text, p_type smallint, p_body bytea, p_not_before bigint) returns event_verdict
language plpgsql as $$
declare
  r runs%rowtype;
  at bigint;
  known int;
  undecided boolean;
  child uuid;
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
      and (p_attempt is null or attempt = p_attempt) and (p_not_before = 0 or due <= now_ms() or lease_until <= now_ms())
      returning gated, case when lease_until is null then claim_id end into undecided, child;
    if not found then return ('not_pending', null, null, null)::event_verdict; end if;
    if child is not null then
      insert into child_outbox select namespace_id, run_id, true, now_ms() from run_facts
        where namespace_id = p_ns and run_id = child and status in (0, 5) on conflict do nothing;
    end if;
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

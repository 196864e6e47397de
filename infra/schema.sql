-- Written by `make db` from infra/migrations and infra/grants.sql; not to be edited.
COMMENT ON SCHEMA public IS 'standard public schema';

CREATE TYPE public.event_verdict AS (
	outcome text,
	seq integer,
	at bigint,
	owner bigint
);

CREATE TYPE public.task_row AS (
	namespace_id uuid,
	run_id uuid,
	n integer,
	name text,
	attempt smallint,
	begun_at bigint,
	lease_until bigint,
	stopping boolean,
	seq integer,
	releases integer
);

CREATE FUNCTION public.abandon_quarantined(p_ns uuid, p_run uuid) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.admit_run(p_ns uuid, p_organization uuid) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
declare
  c usage_counters;
  l jsonb := quota_limits(p_ns, p_organization);
  m record;
  refusal jsonb;
begin
  c := fold_usage(p_ns);
  if l <> '{}' then
    select coalesce(sum(runs), 0) as runs, coalesce(sum(cpu_us), 0) / 1000 as cpu_ms into m
      from usage_days where namespace_id = p_ns and day >= date_trunc('month', today())::date;
    refusal := case
      when c.active >= (l ->> 'active_runs')::bigint
        then quota_refusal('active_runs', (l ->> 'active_runs')::bigint, c.active, false)
      when m.runs >= (l ->> 'runs_per_month')::bigint
        then quota_refusal('runs_per_month', (l ->> 'runs_per_month')::bigint, m.runs::bigint, true)
      when m.cpu_ms >= (l ->> 'cpu_ms_per_month')::bigint
        then quota_refusal('cpu_ms_per_month', (l ->> 'cpu_ms_per_month')::bigint, m.cpu_ms::bigint, true)
      when c.storage_bytes >= (l ->> 'storage_bytes')::bigint
        then quota_refusal('storage_bytes', (l ->> 'storage_bytes')::bigint, c.storage_bytes, false)
    end;
    if refusal is not null then
      perform note_quota(p_ns, refusal);
      return refusal;
    end if;
  end if;
  update usage_counters set active = active + 1 where namespace_id = p_ns;
  insert into usage_days as u (namespace_id, day, runs) values (p_ns, today(), 1)
    on conflict (namespace_id, day) do update set runs = u.runs + 1;
  return null;
end $$;

CREATE FUNCTION public.append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch integer[], p_before integer[], p_delivered integer[], p_cpu bigint[], p_activations integer[], p_organization uuid[], p_toolset text[], p_progress bytea[], p_waits text[], p_calls integer[], p_count integer[], c_type smallint[], c_cause integer[], c_time bigint[], c_body bytea[], c_n integer[], c_name text[], c_line integer[], c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[], OUT appended boolean[], OUT firsts integer[], OUT nexts integer[], OUT at bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

COMMENT ON FUNCTION public.append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch integer[], p_before integer[], p_delivered integer[], p_cpu bigint[], p_activations integer[], p_organization uuid[], p_toolset text[], p_progress bytea[], p_waits text[], p_calls integer[], p_count integer[], c_type smallint[], c_cause integer[], c_time bigint[], c_body bytea[], c_n integer[], c_name text[], c_line integer[], c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[], OUT appended boolean[], OUT firsts integer[], OUT nexts integer[], OUT at bigint) IS 'p_waits holds one int[] per run in text form: arrays of arrays must be rectangular.';

CREATE FUNCTION public.append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_attempt smallint, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) RETURNS public.event_verdict
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.append_events(p_ns uuid[], p_run uuid[], p_guard smallint[], p_n integer[], p_attempt smallint[], p_signal text[], p_type smallint[], p_body bytea[], p_not_before bigint[], OUT outcomes text[], OUT seqs integer[], OUT times bigint[], OUT owners bigint[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
  v event_verdict;
begin
  for i in 1 .. cardinality(p_run) loop
    v := append_event(p_ns[i], p_run[i], p_guard[i], p_n[i], p_attempt[i], p_signal[i], p_type[i], p_body[i],
      p_not_before[i]);
    outcomes[i] := v.outcome; seqs[i] := v.seq; times[i] := v.at; owners[i] := v.owner;
  end loop;
end $$;

CREATE FUNCTION public.append_fork(p_worker bigint, p_ns uuid, p_run uuid, p_owner_epoch integer, p_first integer, e_type smallint[], e_time bigint[], e_cause integer[], e_fire_at bigint[], e_delay bigint[], e_n integer[], e_body bytea[], OUT appended boolean, OUT next integer, OUT at bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.audit_approval() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  perform record_act(new.organization_id, case new.status when 1 then 'approval.approve' else 'approval.deny' end,
    'run:' || new.run_id, jsonb_build_object('status', 'pending'),
    jsonb_build_object('status', case new.status when 1 then 'approved' else 'denied' end, 'call', new.call, 'tool', new.tool));
  return null;
end $$;

CREATE FUNCTION public.audit_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
  was jsonb := case when tg_op = 'INSERT' then null else to_jsonb(old) end;
  is_now jsonb := case when tg_op = 'DELETE' then null else to_jsonb(new) end;
  whole jsonb := coalesce(is_now, was);
  word text := tg_argv[0];
  verb text;
  gone jsonb;
  come jsonb;
begin
  select jsonb_object_agg(c, was -> c), jsonb_object_agg(c, is_now -> c) into gone, come
    from unnest(string_to_array(tg_argv[2], ' ')) c where was is null or is_now is null or was -> c is distinct from is_now -> c;
  if tg_op = 'UPDATE' then
    verb := case
      when was ->> 'revoked_at' is null and is_now ->> 'revoked_at' is not null then 'revoke'
      when was ->> 'suspended_at' is null and is_now ->> 'suspended_at' is not null then 'suspend'
      when was ->> 'suspended_at' is not null and is_now ->> 'suspended_at' is null then 'resume'
      when was ->> 'settled_at' is null and is_now ->> 'settled_at' is not null then 'settle'
      when coalesce(was ->> 'secret_sha256', was ->> 'secret') is distinct from
        coalesce(is_now ->> 'secret_sha256', is_now ->> 'secret') then 'rotate'
      when was ->> 'sealed' is distinct from is_now ->> 'sealed' then 'update'
      when gone is not null then 'update'
    end;
    if verb is null then return null; end if;
  else
    verb := case tg_op when 'INSERT' then 'create' else 'delete' end;
  end if;
  perform record_act(coalesce(whole ->> 'organization_id', whole ->> 'id')::uuid, word || '.' || verb,
    word || ':' || (whole ->> tg_argv[1]), case when was is not null then gone end, case when is_now is not null then come end);
  return null;
end $$;

CREATE FUNCTION public.audit_id(p_at bigint) RETURNS uuid
    LANGUAGE sql
    AS $$
  select encode(set_byte(overlay(uuid_send(gen_random_uuid()) placing substring(int8send(p_at) from 3) from 1 for 6),
    6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112), 'hex')::uuid
$$;

CREATE FUNCTION public.audit_password() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  perform audit_person(new.id, 'person.change_password', nullif(current_setting('rewind.ip', true), ''), null);
  return null;
end $$;

CREATE FUNCTION public.audit_person(p_person uuid, p_action text, p_ip text, p_after jsonb) RETURNS void
    LANGUAGE sql
    AS $$
  select record_act(m.organization_id, p_action, 'person:' || p_person, null, p_after, p_person, p_ip)
  from members m where m.person_id = p_person
$$;

CREATE FUNCTION public.audit_proof() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
  ip text := nullif(current_setting('rewind.ip', true), '');
begin
  if tg_table_name = 'people' then
    perform audit_person(new.id, case when new.totp_since is null then 'person.end_totp' else 'person.begin_totp' end, ip, null);
  elsif tg_table_name = 'passkeys' then
    perform audit_person(coalesce(new.person_id, old.person_id),
      case tg_op when 'INSERT' then 'person.add_passkey' else 'person.remove_passkey' end, ip,
      jsonb_build_object('name', coalesce(new.name, old.name)));
  else
    perform audit_person(coalesce(new.person_id, old.person_id),
      case tg_op when 'INSERT' then 'person.link_provider' else 'person.unlink_provider' end, ip,
      jsonb_build_object('issuer', coalesce(new.issuer, old.issuer)));
  end if;
  return null;
end $$;

CREATE FUNCTION public.audit_sign_in() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  perform audit_person(new.person_id, 'person.sign_in', new.ip, jsonb_build_object('method', new.method));
  return null;
end $$;

CREATE FUNCTION public.audit_sign_out() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  -- By whoever did it: an admin who removes a provider signs its people out.
  perform record_act(m.organization_id, 'person.sign_out', 'person:' || old.person_id, null,
    jsonb_build_object('method', old.method, 'session', old.id),
    case when coalesce(current_setting('rewind.actor_id', true), '') = '' then old.person_id end)
  from members m where m.person_id = old.person_id;
  return null;
end $$;

CREATE FUNCTION public.begin_calls(p_claim uuid, p_lease_ms bigint, p_ns uuid[], p_run uuid[], p_n integer[]) RETURNS TABLE(namespace_id uuid, run_id uuid, n integer, name text, attempt smallint, begun_at bigint, left_ms bigint, body bytea, organization_id uuid, toolset text, toolset_digest text, paced boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
  at bigint := now_ms();
begin
  return query
    with taken as (
      update pending p set claim_id = p_claim, lease_until = at + p_lease_ms, attempt = p.attempt + 1,
          begun_at = coalesce(p.begun_at, at),
          due = case when p.due_why = 3 then at + 300000 when p.due is null and p.timeout_ms is not null
            then at + p.timeout_ms else p.due end,
          due_why = case when p.due_why is null and p.timeout_ms is not null then 1 else p.due_why end
        from unnest(p_ns, p_run, p_n) k (ns, run, n)
        where p.namespace_id = k.ns and p.run_id = k.run and p.kind = 0 and p.n = k.n
        returning p.namespace_id, p.run_id, p.n, p.name, p.attempt, p.begun_at, p.due, p.seq, p.slot)
    select t.namespace_id, t.run_id, t.n, t.name, t.attempt, t.begun_at, t.due - at, e.body,
        f.organization_id, f.toolset, f.toolset_digest, t.slot is not null
      from taken t
      join entries e on e.namespace_id = t.namespace_id and e.run_id = t.run_id and e.seq = t.seq
      join run_facts f on f.namespace_id = t.namespace_id and f.run_id = t.run_id;
end $$;

CREATE FUNCTION public.begin_runs(p_ns uuid[], p_run uuid[]) RETURNS bigint
    LANGUAGE sql
    AS $$
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

CREATE FUNCTION public.calls_in_flight_max() RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$select 1000$$;

CREATE FUNCTION public.claim_calls(p_claim uuid, p_limit integer, p_server_max integer, p_lease_ms bigint, p_full uuid[], p_org uuid[], p_toolset text[], p_server text[], p_free integer[]) RETURNS TABLE(namespace_id uuid, run_id uuid, n integer, name text, attempt smallint, begun_at bigint, left_ms bigint, body bytea, organization_id uuid, toolset text, toolset_digest text, paced boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
  at bigint := now_ms();
  org uuid := '00000000-0000-0000-0000-000000000000';
  tools text := '';
  server text := '';
  room int;
  got int;
begin
  -- Half of the time calls with limits may take it all, so that neither kind starves the other.
  return query
    select b.* from (select array_agg(k.namespace_id) as ns, array_agg(k.run_id) as runs, array_agg(k.n) as calls
      from pick_paced(1::smallint, null, null, null, null, case when random() < 0.5
        or not exists (select from pending p where p.kind = 0 and p.route = 1 and p.claim_id is null and p.slot is null
          and not p.gated and not p.deferred and not p.stopping) then p_limit else p_limit / 2 end,
        p_full, p_org, p_toolset, p_server, p_free, p_server_max) k) k
      cross join lateral begin_calls(p_claim, p_lease_ms, k.ns, k.runs, k.calls) b;
  get diagnostics got = row_count;
  p_limit := p_limit - got;
  for step in 1 .. 1000 loop
    exit when p_limit <= 0;
    select p.organization_id, p.toolset, split_part(p.name, '.', 1) into org, tools, server from pending p
      where p.kind = 0 and p.route = 1 and p.claim_id is null and p.slot is null and not p.gated and not p.deferred and not p.stopping
        and (p.organization_id, p.toolset, split_part(p.name, '.', 1)) > (org, tools, server)
      order by p.organization_id, p.toolset, split_part(p.name, '.', 1) limit 1;
    exit when not found;
    continue when org = any (p_full);
    room := p_server_max;
    for k in 1 .. cardinality(p_org) loop
      if p_org[k] = org and p_toolset[k] = tools and p_server[k] = server then room := p_free[k]; end if;
    end loop;
    room := least(room, p_limit);
    continue when room <= 0;
    return query
      with recursive spaces as (
        (select p.namespace_id from pending p where p.kind = 0 and p.route = 1 and p.claim_id is null and p.slot is null and not p.gated
           and not p.deferred and not p.stopping and p.organization_id = org and p.toolset = tools
           and split_part(p.name, '.', 1) = server order by p.namespace_id limit 1)
        union all
        select (select p.namespace_id from pending p where p.kind = 0 and p.route = 1 and p.claim_id is null and p.slot is null
            and not p.gated and not p.deferred and not p.stopping and p.organization_id = org and p.toolset = tools
            and split_part(p.name, '.', 1) = server and p.namespace_id > s.namespace_id
            order by p.namespace_id limit 1)
          from spaces s where s.namespace_id is not null
      ), found_spaces as (select s.namespace_id from spaces s where s.namespace_id is not null
          and not exists (select from namespaces n where n.id = s.namespace_id and n.suspended_at is not null) limit 1000),
      ranked as (
        select q.*, row_number() over (partition by q.namespace_id order by q.run_id, q.n) as rank, random() as lot
        from found_spaces s cross join lateral (
          select p.namespace_id, p.run_id, p.n from pending p
          where p.kind = 0 and p.route = 1 and p.claim_id is null and p.slot is null and not p.gated and not p.deferred
            and not p.stopping and p.organization_id = org and p.toolset = tools
            and split_part(p.name, '.', 1) = server and p.namespace_id = s.namespace_id
            and (p.available_at is null or p.available_at <= at)
          order by p.run_id, p.n limit room) q
      ), picked as (
        select p.namespace_id, p.run_id, p.n from pending p
        where (p.namespace_id, p.run_id, p.n)
            in (select k.namespace_id, k.run_id, k.n from ranked k order by k.rank, k.lot limit room)
          and p.kind = 0 and p.claim_id is null and not p.gated and not p.deferred and not p.stopping
        for update skip locked
      )
      select b.* from (select array_agg(k.namespace_id) as ns, array_agg(k.run_id) as runs, array_agg(k.n) as calls
        from picked k) k cross join lateral begin_calls(p_claim, p_lease_ms, k.ns, k.runs, k.calls) b;
    get diagnostics got = row_count;
    p_limit := p_limit - got;
  end loop;
end $$;

CREATE FUNCTION public.claim_child(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_child uuid) RETURNS text
    LANGUAGE plpgsql
    AS $$
begin
  perform from runs where namespace_id = p_ns and run_id = p_child for share;
  perform from pending where namespace_id = p_ns and run_id = p_run and kind = 0 and n = p_n and claim_id = p_claim
    for update;
  if not found then return 'gone'; end if;
  perform from runs where namespace_id = p_ns and run_id = p_child for share;
  return case when found then 'known' else 'new' end;
end $$;

CREATE FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_lease_ms bigint) RETURNS TABLE(organization_id uuid, endpoint_id uuid, id uuid, namespace_id uuid, event_id uuid, attempt integer, failures integer, url text, secret bytea, previous_secret bytea, body bytea)
    LANGUAGE sql
    AS $$
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

COMMENT ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_lease_ms bigint) IS 'An attempt that is never reported is made again when its lease has ended.';

CREATE FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_share integer, p_lease_ms bigint) RETURNS TABLE(organization_id uuid, endpoint_id uuid, id uuid, namespace_id uuid, event_id uuid, attempt integer, failures integer, url text, secret bytea, previous_secret bytea, body bytea)
    LANGUAGE sql
    AS $$
  with now as materialized (select now_ms() as at),
  waiting as (
    select distinct d.organization_id, d.endpoint_id from deliveries d, now where d.next_at <= now.at),
  busy as materialized (
    select w.organization_id, count(b.id) as n
    from now cross join (select distinct organization_id from waiting) w
      left join deliveries b on b.organization_id = w.organization_id and b.lease_until > now.at
    group by w.organization_id),
  ranked as (
    select found.organization_id, found.endpoint_id, found.id,
      busy.n + row_number() over (partition by found.organization_id order by found.next_at) as rank
    from now cross join waiting w
      join busy on busy.organization_id = w.organization_id
      join webhook_endpoints e on e.organization_id = w.organization_id and e.id = w.endpoint_id
        and e.disabled_at is null
      cross join lateral (
        select d.organization_id, d.endpoint_id, d.id, d.next_at from deliveries d
        where d.organization_id = e.organization_id and d.endpoint_id = e.id and d.next_at <= now.at
        order by d.next_at
        limit greatest(0, p_per_endpoint - (select count(*) from deliveries b where b.organization_id = e.organization_id
          and b.endpoint_id = e.id and b.lease_until > now.at))) found),
  picked as (
    select r.organization_id, r.endpoint_id, r.id from ranked r where r.rank <= p_share
    order by r.rank, random() limit p_limit),
  due as (
    select d.organization_id, d.endpoint_id, d.id from now, deliveries d
    where (d.organization_id, d.endpoint_id, d.id) in (select p.organization_id, p.endpoint_id, p.id from picked p)
      and d.next_at <= now.at
    for update of d skip locked),
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

COMMENT ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_share integer, p_lease_ms bigint) IS 'p_share: of one organization, under way on all hosts. An attempt that is never reported is made again when its lease has ended.';

CREATE FUNCTION public.claim_runs(p_worker bigint, p_epochs smallint[], p_limit integer, p_busy_ns uuid[] DEFAULT '{}'::uuid[], p_busy integer[] DEFAULT '{}'::integer[], p_share integer DEFAULT 2147483647) RETURNS TABLE(namespace_id uuid, run_id uuid, epoch smallint, owner_epoch integer, commands integer, delivered integer, next_seq integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
begin
  perform 1 from workers where worker_id = p_worker for key share;
  if not found then return; end if;  -- superseded: its runs were given to others, it must not take more
  return query
  with recursive spaces as (
    (select r.namespace_id from runs r where r.ready order by r.namespace_id limit 1)
    union all
    select (select r.namespace_id from runs r where r.ready and r.namespace_id > s.namespace_id
            order by r.namespace_id limit 1) from spaces s where s.namespace_id is not null
  ), found_spaces as (select s.namespace_id from spaces s where s.namespace_id is not null
      and not exists (select from namespaces n where n.id = s.namespace_id and n.suspended_at is not null) limit 1000),
  ranked as (
    select q.namespace_id, q.run_id,
      coalesce(b.busy, 0) + row_number() over (partition by q.namespace_id order by q.run_id) as rank,
      random() as lot  -- or of many namespaces the same would always come first
    from found_spaces s left join unnest(p_busy_ns, p_busy) b (ns, busy) on b.ns = s.namespace_id
    cross join lateral (
      select r.namespace_id, r.run_id from runs r
      where r.ready and r.namespace_id = s.namespace_id and r.epoch = any (p_epochs)
      order by r.run_id limit greatest(0, least(p_limit, p_share - coalesce(b.busy, 0)))) q
  ), picked as (
    select r.namespace_id, r.run_id from runs r
    where (r.namespace_id, r.run_id) in (select k.namespace_id, k.run_id from ranked k
        order by k.rank, k.lot limit p_limit)
      and r.ready and r.owner is null and r.status = 0
    for no key update skip locked
  )
  update runs r set owner = p_worker, owner_epoch = r.owner_epoch + 1, ready = false
    from picked p where r.namespace_id = p.namespace_id and r.run_id = p.run_id
    returning r.namespace_id, r.run_id, r.epoch, r.owner_epoch, r.commands, r.delivered, r.next_seq;
end $$;

CREATE FUNCTION public.claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid, p_limit integer, p_lease_ms bigint) RETURNS TABLE(namespace_id uuid, run_id uuid, n integer, name text, attempt smallint, begun_at bigint, lease_until bigint, stopping boolean, body bytea, namespace_name text, labels jsonb, releases integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
  at bigint := now_ms();
  got task_row[];
  more task_row[];
  room int;
  paced uuid[];
  paced_runs uuid[];
  paced_calls int[];
begin
  with mine as (
    update pending p set lease_until = at + p_lease_ms, handed = true where p.claim_id = p_claim and p.kind = 0 and p.route = 0
      and p.organization_id = p_organization and (p_namespace is null or p.namespace_id = p_namespace)
      and (p_toolset is null or p.toolset = p_toolset)
    returning p.namespace_id, p.run_id, p.n, p.name, p.attempt, p.begun_at, p.lease_until, p.stopping, p.seq,
      p.releases)
  select array_agg(row (m.*)::task_row) into got from mine m;
  room := p_limit - coalesce(cardinality(got), 0);
  if room > 0 then
    if exists (select from pending p where p.kind = 0 and p.route = 0 and p.slot is not null and p.claim_id is null
        and not p.gated and not p.deferred and not p.stopping and p.organization_id = p_organization) then
      -- Half of the time calls with limits may take it all, so that neither kind starves the other.
      select array_agg(k.namespace_id), array_agg(k.run_id), array_agg(k.n) into paced, paced_runs, paced_calls
        from pick_paced(0::smallint, p_organization, p_namespace, p_toolset, p_tools,
          case when random() < 0.5 or not exists (select from pending p where p.kind = 0 and p.route = 0
            and p.claim_id is null and p.slot is null and not p.gated and not p.deferred
            and p.organization_id = p_organization and (p_namespace is null or p.namespace_id = p_namespace)
            and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools)))
          then room else room / 2 end, '{}', '{}', '{}', '{}', '{}', 0) k;
    end if;
    with recursive spaces as (
      (select p.namespace_id from pending p where p.kind = 0 and p.route = 0 and p.claim_id is null and p.slot is null and not p.gated
         and not p.deferred and p.organization_id = p_organization
         and (p_namespace is null or p.namespace_id = p_namespace)
         and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools))
         order by p.namespace_id limit 1)
      union all
      select (select p.namespace_id from pending p where p.kind = 0 and p.route = 0 and p.claim_id is null and p.slot is null
          and not p.gated and not p.deferred and p.organization_id = p_organization and p_namespace is null
          and p.namespace_id > s.namespace_id
          and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools))
          order by p.namespace_id limit 1)
        from spaces s where s.namespace_id is not null
    ), found_spaces as (select s.namespace_id from spaces s where s.namespace_id is not null
      and not exists (select from namespaces n where n.id = s.namespace_id and n.suspended_at is not null) limit 1000),
    ranked as (
      select q.*, row_number() over (partition by q.namespace_id order by q.run_id, q.n) as rank, random() as lot
      from found_spaces s cross join lateral (
        select p.namespace_id, p.run_id, p.n from pending p
        where p.kind = 0 and p.route = 0 and p.claim_id is null and p.slot is null and not p.gated and not p.deferred
          and p.organization_id = p_organization and p.namespace_id = s.namespace_id
          and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools))
          and (p.available_at is null or p.available_at <= at) and not p.stopping
        order by p.run_id, p.n limit room) q
    ), picked as (
      select p.namespace_id, p.run_id, p.n from pending p
      where (p.namespace_id, p.run_id, p.n) in (select k.namespace_id, k.run_id, k.n from ranked k order by k.rank, k.lot
          limit room - coalesce(cardinality(paced), 0))
        and p.kind = 0 and p.claim_id is null and not p.gated and not p.deferred
      for update skip locked
    ), all_picked as (
      select * from picked union all select * from unnest(paced, paced_runs, paced_calls) k (namespace_id, run_id, n)
    ), taken as (
      update pending p set claim_id = p_claim, lease_until = at + p_lease_ms, handed = true, attempt = least(p.attempt + 1, 32767),
          begun_at = coalesce(p.begun_at, at),
          due = case when p.due_why = 3 then at + 300000 when p.due is null and p.timeout_ms is not null
            then at + p.timeout_ms else p.due end,
          due_why = case when p.due_why is null and p.timeout_ms is not null then 1 else p.due_why end
        from all_picked k where p.namespace_id = k.namespace_id and p.run_id = k.run_id and p.kind = 0 and p.n = k.n
        returning p.namespace_id, p.run_id, p.n, p.name, p.attempt, p.begun_at, p.lease_until, p.stopping, p.seq,
      p.releases)
    select array_agg(row (t.*)::task_row) into more from taken t;
  end if;
  return query
    select t.namespace_id, t.run_id, t.n, t.name, t.attempt, t.begun_at, t.lease_until, t.stopping, e.body, s.name, f.labels,
      t.releases
    from (select false as new, m.* from unnest(got) m union all select true, m.* from unnest(more) m) t
    join entries e on e.namespace_id = t.namespace_id and e.run_id = t.run_id and e.seq = t.seq
    join run_facts f on f.namespace_id = t.namespace_id and f.run_id = t.run_id
    join namespaces s on s.id = t.namespace_id
    order by t.new, t.run_id, t.n;
end $$;

COMMENT ON FUNCTION public.claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid, p_limit integer, p_lease_ms bigint) IS 'The same claim again is answered with what it holds, with fresh leases, before anything new.';

CREATE FUNCTION public.count_deletion() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  insert into usage_deltas (namespace_id, day, ended, bytes)
    values (old.namespace_id, today(), case when old.ended_at is null then 1 else 0 end, -coalesce(old.journal_bytes, 0));
  return null;
end $$;

CREATE FUNCTION public.count_end() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
  r runs%rowtype;
  size bigint;
begin
  select * into r from runs where namespace_id = new.namespace_id and run_id = new.run_id;
  select coalesce(sum(octet_length(body)), 0) into size from entries
    where namespace_id = new.namespace_id and run_id = new.run_id;
  insert into usage_deltas (namespace_id, day, ended, cpu_us, calls, bytes)
    values (new.namespace_id, today(), 1, r.cpu_us - r.metered_us, r.calls - r.metered_calls, size);
  update run_facts set journal_bytes = size where namespace_id = new.namespace_id and run_id = new.run_id;
  return null;
end $$;

CREATE FUNCTION public.count_script() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
  organization uuid;
  l jsonb;
  used bigint;
begin
  select n.organization_id into organization from namespaces n where n.id = new.namespace_id;
  l := quota_limits(new.namespace_id, organization);
  perform fold_usage(new.namespace_id);
  if l ? 'scripts_per_month' then
    select coalesce(sum(scripts), 0) into used from usage_days
      where namespace_id = new.namespace_id and day >= date_trunc('month', today())::date;
    if used >= (l ->> 'scripts_per_month')::bigint then
      raise exception 'quota' using errcode = 'RWQ01',
        detail = quota_refusal('scripts_per_month', (l ->> 'scripts_per_month')::bigint, used, true);
    end if;
  end if;
  insert into usage_days as u (namespace_id, day, scripts) values (new.namespace_id, today(), 1)
    on conflict (namespace_id, day) do update set scripts = u.scripts + 1;
  return null;
end $$;

COMMENT ON FUNCTION public.count_script() IS 'Only scripts that were not known: a conflicting insert fires no trigger.';

CREATE FUNCTION public.count_value() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  if tg_op = 'INSERT' then
    insert into usage_deltas (namespace_id, day, bytes) values (new.namespace_id, today(), new.bytes);
  else
    insert into usage_deltas (namespace_id, day, bytes) values (old.namespace_id, today(), -old.bytes);
  end if;
  return null;
end $$;

CREATE FUNCTION public.decide_approval(p_ns uuid, p_run uuid, p_call integer, p_decision smallint, p_body bytea, p_completion bytea, OUT verdict public.event_verdict, OUT route smallint, OUT organization uuid, OUT toolset text, OUT tool text) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
  r runs%rowtype;
  c pending%rowtype;
  at bigint;
begin
  select * into r from runs where namespace_id = p_ns and run_id = p_run for no key update;
  if not found then verdict := ('unknown', null, null, null)::event_verdict; return; end if;
  if r.status not in (0, 5) then verdict := ('ended', null, null, null)::event_verdict; return; end if;
  select * into c from pending p where p.namespace_id = p_ns and p.run_id = p_run and p.kind = 0 and p.n = p_call and p.gated;
  if not found or (p_decision = 1 and (r.cancel_seq is not null or c.stopping))
    or (p_decision = 3 and (c.due_why is distinct from 5 or c.due > now_ms()))
  then verdict := ('not_pending', null, null, null)::event_verdict; return; end if;

  at := greatest(r.last_time, now_ms());
  insert into entries (namespace_id, run_id, seq, type, time, n, body)
    values (p_ns, p_run, r.next_seq, 4, at, p_call, p_body);
  if p_decision = 1 then
    update pending p set gated = false, due = null, due_why = null
      where p.namespace_id = p_ns and p.run_id = p_run and p.kind = 0 and p.n = p_call;
    update runs set next_seq = r.next_seq + 1, last_time = at where namespace_id = p_ns and run_id = p_run;
    route := c.route; organization := c.organization_id; toolset := c.toolset; tool := c.name;
  else
    delete from pending p where p.namespace_id = p_ns and p.run_id = p_run and p.kind = 0 and p.n = p_call;
    if r.calls > calls_in_flight_max() then perform offer_next_call(p_ns, p_run); end if;
    insert into entries (namespace_id, run_id, seq, type, time, n, body)
      values (p_ns, p_run, r.next_seq + 1, 5, at, p_call, p_completion);
    update runs set next_seq = r.next_seq + 2, last_time = at, last_event = r.next_seq + 1,
        ready = owner is null and status = 0
      where namespace_id = p_ns and run_id = p_run;
  end if;
  update approvals set status = p_decision, decided_seq = r.next_seq, decided_at = at
    where namespace_id = p_ns and run_id = p_run and call = p_call;
  verdict := ('appended', r.next_seq, at, r.owner)::event_verdict;
end $$;

CREATE FUNCTION public.defer_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_expires bigint[]) RETURNS TABLE(i integer, ok boolean)
    LANGUAGE sql
    AS $$
  with asked as (
    select * from unnest(p_ns, p_run, p_n, p_attempt, p_releases, p_expires)
      with ordinality a (ns, run, n, attempt, releases, expires, i)),
  kept as (
    update pending p set deferred = true, claim_id = null, lease_until = null,
      due = case when p.due_why in (2, 3) then p.due else coalesce(now_ms() + a.expires, p.due) end,
      due_why = case when a.expires is null or p.due_why in (2, 3) then p.due_why else 4 end
    from asked a
    where p.namespace_id = a.ns and p.run_id = a.run and p.kind = 0 and p.n = a.n and p.attempt = a.attempt
      and p.releases = a.releases and (p.claim_id is not null or p.deferred)
    returning a.i)
  select a.i::int, k.i is not null from asked a left join kept k using (i) order by a.i
$$;

CREATE FUNCTION public.delete_namespace(p_organization uuid, p_ns uuid) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
  update namespaces set name = '~' || id, labels = '{}', deleted_at = now_ms(), suspended_at = coalesce(suspended_at, now_ms())
    where id = p_ns and organization_id = p_organization and deleted_at is null;
  if not found then return false; end if;
  update tokens set revoked_at = now_ms() where namespace_id = p_ns and revoked_at is null;
  delete from secrets where organization_id = p_organization and namespace_id = p_ns;
  perform erase_namespace(p_ns);
  delete from approvals where namespace_id = p_ns;
  delete from child_outbox where namespace_id = p_ns;
  return true;
end $$;

CREATE FUNCTION public.delete_runs(p_ns uuid, p_runs uuid[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
  gone uuid[];
begin
  perform from runs where namespace_id = p_ns and run_id = any (p_runs) order by run_id for update;
  select array_agg(f.run_id) into gone from run_facts f
    where f.namespace_id = p_ns and f.run_id = any (p_runs) and f.ended_at is not null and f.sealed
      and not exists (select from child_outbox c where c.namespace_id = f.namespace_id and c.run_id = f.run_id)
      and not exists (select from forks_being_made(f.namespace_id, f.run_id));
  if gone is null then return 0; end if;
  perform drop_runs(p_ns, gone);
  return cardinality(gone);
end $$;

COMMENT ON FUNCTION public.delete_runs(p_ns uuid, p_runs uuid[]) IS 'How many were deleted: those that have ended, are sealed, whose end was told to a run that awaits it, and that no fork is being made from.';

CREATE FUNCTION public.drop_runs(p_ns uuid, p_runs uuid[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  delete from entries where namespace_id = p_ns and run_id = any (p_runs);
  delete from value_refs where namespace_id = p_ns and run_id = any (p_runs);
  delete from pending where namespace_id = p_ns and run_id = any (p_runs);
  delete from approvals where namespace_id = p_ns and run_id = any (p_runs);
  delete from child_outbox where namespace_id = p_ns and run_id = any (p_runs);
  delete from signal_ids where namespace_id = p_ns and run_id = any (p_runs);
  delete from held_events where namespace_id = p_ns and run_id = any (p_runs);
  delete from quarantines where namespace_id = p_ns and run_id = any (p_runs);
  delete from replays where namespace_id = p_ns and run_id = any (p_runs);
  delete from run_facts where namespace_id = p_ns and run_id = any (p_runs);
  delete from runs where namespace_id = p_ns and run_id = any (p_runs);
end $$;

CREATE FUNCTION public.emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence integer, p_call integer) RETURNS void
    LANGUAGE sql
    AS $$
  insert into events (namespace_id, id, organization_id, type, run_id, sequence, call, at)
    select p_ns, uuid_v7(at), p_organization, p_type, p_run, p_sequence, p_call, at from (select now_ms() as at) now
$$;

COMMENT ON FUNCTION public.emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence integer, p_call integer) IS 'Called in the transaction of what it tells.';

CREATE FUNCTION public.end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq integer, p_at bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.erase_namespace(p_ns uuid) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
declare
  stopped bigint;
begin
  insert into namespace_keys (namespace_id, created_at, destroyed_at) values (p_ns, now_ms(), now_ms())
    on conflict (namespace_id) do update set wrapped = null,
      destroyed_at = coalesce(namespace_keys.destroyed_at, excluded.destroyed_at);
  perform 1 from runs where namespace_id = p_ns and status = 0 order by run_id for no key update;
  update runs set status = 5, owner = null, ready = false where namespace_id = p_ns and status = 0;
  get diagnostics stopped = row_count;
  update run_facts set status = 5 where namespace_id = p_ns and status = 0;
  delete from pending where namespace_id = p_ns;
  delete from deliveries where namespace_id = p_ns;
  delete from events where namespace_id = p_ns;
  delete from approvals where namespace_id = p_ns;
  return stopped;
end $$;

COMMENT ON FUNCTION public.erase_namespace(p_ns uuid) IS 'How many active runs that stopped: they are quarantined, without a report.';

CREATE FUNCTION public.erase_some(p_ns uuid, p_runs integer) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
declare
  found_runs uuid[];
begin
  select array_agg(r.run_id) into found_runs
    from (select run_id from runs where namespace_id = p_ns order by run_id limit p_runs for update) r;
  if found_runs is not null then
    perform drop_runs(p_ns, found_runs);
    return false;
  end if;
  delete from run_facts where namespace_id = p_ns;
  delete from scripts where namespace_id = p_ns;
  delete from compiled_scripts where namespace_id = p_ns;
  delete from checked_scripts where namespace_id = p_ns;
  delete from idempotency where namespace_id = p_ns;
  delete from sandbox_requests where namespace_id = p_ns;
  delete from bulk_cancels where namespace_id = p_ns;
  delete from value_refs where namespace_id = p_ns;
  delete from seals where namespace_id = p_ns;
  delete from seal_heads where namespace_id = p_ns;
  delete from tokens where namespace_id = p_ns;
  update blobs set touched_at = 0 where namespace_id = p_ns;
  update namespaces set erased_at = now_ms() where id = p_ns and deleted_at < now_ms() - 120000;
  return found;
end $$;

CREATE FUNCTION public.expire_leases(p_limit integer) RETURNS TABLE(namespace_id uuid, run_id uuid, n integer, attempt smallint, begun_at bigint, reoffered boolean)
    LANGUAGE sql
    AS $$
  with late as (
    select p.namespace_id, p.run_id, p.kind, p.n from pending p where p.lease_until <= now_ms()
    order by p.lease_until limit p_limit for update skip locked),
  changed as (
    update pending p set claim_id = case when p.idempotent and not p.stopping then null else p.claim_id end,
      lease_until = case when p.idempotent and not p.stopping then null else p.lease_until end
    from late l where p.namespace_id = l.namespace_id and p.run_id = l.run_id and p.kind = l.kind and p.n = l.n
    returning p.namespace_id, p.run_id, p.n, p.attempt, p.begun_at, p.claim_id is null as reoffered)
  select c.namespace_id, c.run_id, c.n, c.attempt, c.begun_at, c.reoffered from changed c
$$;

CREATE FUNCTION public.expired_runs(p_after uuid, p_limit integer, p_default_days integer, p_runs integer, p_entries bigint) RETURNS TABLE(namespace_id uuid, runs uuid[])
    LANGUAGE sql STABLE
    AS $$
  select n.id, r.runs from (
    select id, coalesce(retention_days, p_default_days) as days from namespaces
    where id > p_after order by id limit p_limit) n
  left join lateral (
    select array_agg(o.run_id) as runs from (
      select f.run_id, row_number() over w as place, sum(r.next_seq) over w as entries
      from (select * from run_facts f where f.namespace_id = n.id and f.ended_at < now_ms() - n.days * 86400000::bigint
          and f.sealed order by f.ended_at, f.run_id limit p_runs) f
        join runs r on r.namespace_id = f.namespace_id and r.run_id = f.run_id
      where not exists (select from run_facts d join runs c on c.namespace_id = d.namespace_id and c.run_id = d.run_id
        where d.namespace_id = f.namespace_id and d.parent ->> 'run' = f.run_id::text and c.forking and c.status in (0, 5))
      window w as (order by f.ended_at, f.run_id)) o
    where o.place = 1 or o.entries <= p_entries) r on true
  order by n.id
$$;

CREATE FUNCTION public.finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered integer, p_last_event integer, p_commands integer, p_calls integer, p_cpu bigint, p_activations integer, p_cancel_seq integer, p_ending smallint, p_progress bytea, p_organization uuid, p_toolset text, s_id text[], s_seq integer[], c_kind smallint[], c_n integer[], c_seq integer[], c_line integer[], c_name text[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_expires bigint[], c_pace text[], OUT next integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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

CREATE TABLE public.usage_counters (
    namespace_id uuid NOT NULL,
    active integer DEFAULT 0 NOT NULL,
    storage_bytes bigint DEFAULT 0 NOT NULL
);

ALTER TABLE ONLY public.usage_counters FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.usage_counters.active IS 'Runs that have not ended, less those whose end waits in usage_deltas.';

CREATE FUNCTION public.fold_usage(p_ns uuid) RETURNS public.usage_counters
    LANGUAGE plpgsql
    AS $$
declare
  c usage_counters;
  d record;
begin
  select * into c from usage_counters where namespace_id = p_ns for update;
  if not found then
    insert into usage_counters (namespace_id) values (p_ns) on conflict do nothing;
    select * into c from usage_counters where namespace_id = p_ns for update;
  end if;
  for d in
    with gone as (delete from usage_deltas where namespace_id = p_ns returning *)
    select day, sum(ended) as ended, sum(cpu_us) as cpu_us, sum(calls) as calls, sum(bytes) as bytes
    from gone group by day
  loop
    insert into usage_days as u (namespace_id, day, cpu_us, calls, storage_bytes)
      values (p_ns, d.day, d.cpu_us, d.calls, d.bytes)
      on conflict (namespace_id, day) do update set cpu_us = u.cpu_us + excluded.cpu_us,
        calls = u.calls + excluded.calls, storage_bytes = u.storage_bytes + excluded.storage_bytes;
    c.active := greatest(0, c.active - d.ended);
    c.storage_bytes := greatest(0, c.storage_bytes + d.bytes);
    update usage_counters set active = c.active, storage_bytes = c.storage_bytes where namespace_id = p_ns;
  end loop;
  return c;
end $$;

CREATE FUNCTION public.forks_being_made(p_ns uuid, p_run uuid) RETURNS SETOF uuid
    LANGUAGE sql STABLE
    AS $$
  select d.run_id from run_facts d join runs c on c.namespace_id = d.namespace_id and c.run_id = d.run_id
    where d.namespace_id = p_ns and d.parent ->> 'run' = p_run::text and c.forking and c.status in (0, 5)
$$;

COMMENT ON FUNCTION public.forks_being_made(p_ns uuid, p_run uuid) IS 'Forks that still read the journal of this run.';

CREATE FUNCTION public.heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_lease_ms bigint) RETURNS TABLE(i integer, lease_until bigint, stopping boolean)
    LANGUAGE sql
    AS $$
  with asked as (
    select * from unnest(p_ns, p_run, p_n, p_attempt, p_releases) with ordinality a (ns, run, n, attempt, releases, i)),
  kept as (
    update pending p set lease_until = now_ms() + p_lease_ms from asked a
      join runs r on r.namespace_id = a.ns and r.run_id = a.run
    where p.namespace_id = a.ns and p.run_id = a.run and p.kind = 0 and p.n = a.n and p.attempt = a.attempt
      and p.releases = a.releases and p.claim_id is not null
    returning a.i, p.lease_until, p.stopping or coalesce(r.delivered < r.cancel_seq, false) as stopping)
  select a.i::int, k.lease_until, k.stopping from asked a left join kept k using (i) order by a.i
$$;

CREATE FUNCTION public.hold_call(p_ns uuid, p_run uuid, p_n integer, p_child uuid) RETURNS void
    LANGUAGE sql
    AS $$
  update pending set claim_id = p_child, lease_until = null
    where namespace_id = p_ns and run_id = p_run and kind = 0 and n = p_n;
  insert into child_outbox select f.namespace_id, f.run_id, false, f.ended_at from run_facts f
    where f.namespace_id = p_ns and f.run_id = p_child and f.ended_at is not null
    on conflict (namespace_id, run_id, orphaned) do update set ident = excluded.ident;
$$;

CREATE FUNCTION public.hold_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) RETURNS public.event_verdict
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.hold_namespace() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  if exists (select from organizations o where o.id = new.organization_id and o.suspended_at is not null) then
    new.suspended_at := now_ms();
    new.suspended_with_organization := true;
  end if;
  return new;
end $$;

CREATE FUNCTION public.leave_fork(p_ns uuid, p_run uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.meter_run() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  insert into usage_deltas (namespace_id, day, cpu_us, calls)
    values (new.namespace_id, today(), new.cpu_us - new.metered_us, new.calls - new.metered_calls);
  update runs set metered_us = new.cpu_us, metered_calls = new.calls
    where namespace_id = new.namespace_id and run_id = new.run_id;
  return null;
end $$;

CREATE FUNCTION public.note_quota(p_ns uuid, p_refusal jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  insert into quota_notices values (p_ns, p_refusal ->> 'quota',
    to_char(today(), case when p_refusal ->> 'resets_at' is null then 'YYYY-MM-DD' else 'YYYY-MM' end))
    on conflict do nothing;
  if found then
    insert into events (namespace_id, id, organization_id, type, at, detail)
      select p_ns, uuid_v7(at), n.organization_id, 'quota.exceeded', at, p_refusal
      from (select now_ms() as at) now, namespaces n where n.id = p_ns;
  end if;
end $$;

CREATE FUNCTION public.now_ms() RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
  select (extract(epoch from clock_timestamp()) * 1000)::bigint + (select offset_ms from clock)
$$;

COMMENT ON FUNCTION public.now_ms() IS 'The only source of time of the product.';

CREATE FUNCTION public.offer_next_call(p_ns uuid, p_run uuid) RETURNS void
    LANGUAGE sql
    AS $$
  update pending set route = route - 2 where namespace_id = p_ns and run_id = p_run and kind = 0
    and n = (select n from pending where namespace_id = p_ns and run_id = p_run and kind = 0 and route >= 2
      order by n limit 1)
$$;

CREATE FUNCTION public.pace_call() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  if tg_op = 'INSERT' then
    new.slot := md5(coalesce(new.toolset, '') || '/' || (new.pace ->> 'slot'));
    new.queue_ms := (new.pace ->> 'queue_ms')::bigint;
  end if;
  if new.queue_ms is null then return new; end if;
  if new.due_why = 7 and (new.claim_id is not null or new.attempt > 0) then
    new.due := new.begun_at + new.timeout_ms;
    new.due_why := case when new.timeout_ms is not null then 1 end;
  elsif new.due is null and new.attempt = 0 and new.claim_id is null and not new.gated and not new.deferred
    and new.route < 2 then
    new.due := now_ms() + new.queue_ms;
    new.due_why := 7;
  end if;
  return new;
end $$;

CREATE FUNCTION public.pick_paced(p_route smallint, p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_limit integer, p_full uuid[], p_org uuid[], p_toolsets text[], p_server text[], p_free integer[], p_server_max integer) RETURNS TABLE(namespace_id uuid, run_id uuid, n integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
  at bigint := now_ms();
  pivot text := md5(random()::text);
  place text := pivot;
  org uuid := '00000000-0000-0000-0000-000000000000';
  wrapped boolean := false;
  c pending%rowtype;
  room int;
  free int;
  counted text;
  width bigint;
  got int;
begin
  for step in 1 .. 1000 loop
    exit when p_limit <= 0;
    if p_organization is null then
      select p.* into c from pending p where p.kind = 0 and p.route = 1 and p.slot is not null and p.claim_id is null
        and not p.gated and not p.deferred and not p.stopping and (p.slot, p.organization_id) > (place, org)
        order by p.slot, p.organization_id limit 1;
    else
      select p.* into c from pending p where p.kind = 0 and p.route = 0 and p.slot is not null and p.claim_id is null
        and not p.gated and not p.deferred and not p.stopping and p.organization_id = p_organization
        and p.slot > place order by p.slot limit 1;
    end if;
    if not found then
      exit when wrapped;
      wrapped := true; place := ''; org := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    place := c.slot; org := c.organization_id;
    exit when wrapped and place > pivot;
    continue when org = any (p_full) or (p_toolset is not null and c.toolset <> p_toolset)
      or (p_tools is not null and not exists (select from pending p where p.kind = 0 and p.route = p_route
        and p.slot = place and p.claim_id is null and not p.gated and not p.deferred and not p.stopping
        and p.organization_id = org and p.name = any (p_tools)));
    free := p_limit;
    if p_route = 1 then
      free := p_server_max;
      for k in 1 .. cardinality(p_org) loop
        if p_org[k] = org and p_toolsets[k] = c.toolset and p_server[k] = split_part(c.name, '.', 1) then
          free := p_free[k];
        end if;
      end loop;
    end if;
    room := least(p_limit, free);
    continue when room <= 0 or not pg_try_advisory_xact_lock(hashtextextended(org::text || place, 22));
    if c.pace ? 'slots' then
      select least(room, (c.pace ->> 'slots')::int - count(*)::int) into room from pending p
        where p.organization_id = org and p.slot = place and (p.claim_id is not null or p.deferred);
    end if;
    counted := null;
    if c.pace ? 'rate' and room > 0 then
      counted := md5(coalesce(c.toolset, '') || '/' || (c.pace ->> 'rate'));
      continue when not pg_try_advisory_xact_lock(hashtextextended(org::text || counted, 23));
      width := greatest(1, ((c.pace ->> 'per_ms')::bigint + 19) / 20);
      delete from rate_marks m where m.organization_id = org and m.rate = counted and m.bucket < at / width - 20;
      select least(room, (c.pace ->> 'rate_limit')::int - coalesce(sum(m.count), 0)::int) into room
        from rate_marks m where m.organization_id = org and m.rate = counted;
    end if;
    continue when room <= 0;
    return query
      with recursive spaces as (
        (select p.namespace_id from pending p where p.kind = 0 and p.route = p_route and p.slot = place
           and p.claim_id is null and not p.gated and not p.deferred and not p.stopping and p.organization_id = org
           and (p_namespace is null or p.namespace_id = p_namespace) order by p.namespace_id limit 1)
        union all
        select (select p.namespace_id from pending p where p.kind = 0 and p.route = p_route and p.slot = place
            and p.claim_id is null and not p.gated and not p.deferred and not p.stopping and p.organization_id = org
            and p_namespace is null and p.namespace_id > s.namespace_id order by p.namespace_id limit 1)
          from spaces s where s.namespace_id is not null
      ), found_spaces as (select s.namespace_id from spaces s where s.namespace_id is not null limit 1000),
      ranked as (
        select q.*, row_number() over (partition by q.namespace_id order by q.run_id, q.n) as rank, random() as lot
        from found_spaces s cross join lateral (
          select p.namespace_id, p.run_id, p.n from pending p
          where p.kind = 0 and p.route = p_route and p.slot = place and p.claim_id is null and not p.gated
            and not p.deferred and not p.stopping and p.organization_id = org and p.namespace_id = s.namespace_id
            and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools))
            and (p.available_at is null or p.available_at <= at)
          order by p.run_id, p.n limit room) q)
      select p.namespace_id, p.run_id, p.n from pending p
        where (p.namespace_id, p.run_id, p.n)
            in (select k.namespace_id, k.run_id, k.n from ranked k order by k.rank, k.lot limit room)
          and p.kind = 0 and p.claim_id is null and not p.gated and not p.deferred and not p.stopping
        for update skip locked;
    get diagnostics got = row_count;
    continue when got = 0;
    p_limit := p_limit - got;
    if p_route = 1 then  -- a later limit of the same server has so much less room
      p_org := org || p_org; p_toolsets := c.toolset || p_toolsets;
      p_server := split_part(c.name, '.', 1) || p_server; p_free := (free - got) || p_free;
      for k in 2 .. cardinality(p_org) loop
        if p_org[k] = org and p_toolsets[k] = c.toolset and p_server[k] = p_server[1] then p_free[k] := free - got; end if;
      end loop;
    end if;
    if counted is not null then
      insert into rate_marks as m (organization_id, rate, bucket, count) values (org, counted, at / width, got)
        on conflict on constraint rate_marks_pkey do update set count = m.count + excluded.count;
    end if;
  end loop;
end $$;

CREATE FUNCTION public.quarantine_by_operator(p_ns uuid, p_run uuid, p_report bytea) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
declare
  org uuid;
begin
  update runs set status = 5, owner = null, ready = false where namespace_id = p_ns and run_id = p_run and status = 0;
  if not found then return null; end if;
  update run_facts set status = 5 where namespace_id = p_ns and run_id = p_run returning organization_id into org;
  update pending set due = null where namespace_id = p_ns and run_id = p_run and kind = 4;
  insert into quarantines (namespace_id, run_id, at, report) values (p_ns, p_run, now_ms(), p_report);
  perform emit_event(p_ns, org, 'run.quarantined', p_run, null, null);
  return org;
end $$;

CREATE FUNCTION public.quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea, p_owner_epoch integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.quota_limits(p_ns uuid, p_organization uuid) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  select o.limits || coalesce((select q.limits from quotas q where q.namespace_id = p_ns), '{}')
  from organizations o where o.id = p_organization
$$;

CREATE FUNCTION public.quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  select jsonb_build_object('quota', p_quota, 'limit', p_limit, 'used', p_used, 'now', now_ms(), 'resets_at', case when p_monthly then
    (extract(epoch from (date_trunc('month', today()::timestamp) + interval '1 month') at time zone 'UTC') * 1000)::bigint end)
$$;

CREATE FUNCTION public.reap_workers(p_stale bigint) RETURNS TABLE(worker_id bigint, runs integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
  gone bigint;
  freed int;
begin
  for gone in
    select w.worker_id from workers w
    where w.heartbeat_at < p_stale or not exists (
      select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
        and l.database = (select oid from pg_database where datname = current_database())
        and (l.classid::bigint << 32) | l.objid::bigint = w.worker_id)
    for update skip locked
  loop
    -- After the row lock: no claim of this worker can be under way, and what it claimed is visible.
    with held as (
      select r.namespace_id, r.run_id from runs r where r.owner = gone
      order by r.namespace_id, r.run_id for no key update)
    update runs r set owner = null, ready = (r.status = 0 and r.last_event > r.delivered)
      from held h where r.namespace_id = h.namespace_id and r.run_id = h.run_id;
    get diagnostics freed = row_count;
    delete from workers w where w.worker_id = gone;
    update sandbox_requests s set worker_id = null where s.worker_id = gone and s.answered_at is null;
    worker_id := gone; runs := freed;
    return next;
  end loop;
end $$;

CREATE FUNCTION public.record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb, p_person uuid DEFAULT NULL::uuid, p_ip text DEFAULT NULL::text) RETURNS void
    LANGUAGE sql
    AS $$
  insert into audit_log (id, organization_id, at, actor_kind, actor_id, action, target, ip, before, after)
  select audit_id(now), p_org, now,
    case when p_person is not null then 'member' else coalesce(nullif(current_setting('rewind.actor_kind', true), ''), 'system') end,
    coalesce(p_person::text, nullif(current_setting('rewind.actor_id', true), ''), 'rewind'),
    p_action, p_target, coalesce(p_ip, nullif(current_setting('rewind.ip', true), '')), p_before, p_after
  from now_ms() now
$$;

COMMENT ON FUNCTION public.record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb, p_person uuid, p_ip text) IS 'A line of the audit log, of whoever the settings name, or of this person.';

CREATE FUNCTION public.record_held(p_ns uuid, p_run uuid, p_known text[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.release_calls(p_claim uuid, p_ns uuid[], p_run uuid[], p_n integer[]) RETURNS void
    LANGUAGE sql
    AS $$
  update pending p set claim_id = null, lease_until = null, attempt = p.attempt - 1,
      begun_at = case when p.attempt = 1 then null else p.begun_at end, releases = p.releases + 1,
      due = case when p.attempt > 1 then p.due when p.due_why = 1 then null when p.due_why = 2 then now_ms()
        when p.due_why = 3 then now_ms() + 30000 else p.due end,
      due_why = case when p.due_why = 1 and p.attempt = 1 then null else p.due_why end
    from unnest(p_ns, p_run, p_n) a (ns, run, n)
    where p.namespace_id = a.ns and p.run_id = a.run and p.kind = 0 and p.n = a.n and p.claim_id = p_claim
$$;

CREATE FUNCTION public.release_quarantined(p_ns uuid, p_run uuid) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
declare
  ends bigint;
begin
  perform from runs where namespace_id = p_ns and run_id = p_run and status = 5 for no key update;
  if not found or exists (select from pending where namespace_id = p_ns and run_id = p_run and kind = 6) then
    return false;
  end if;
  update runs set status = 0, ready = last_event > delivered and not exists (
      select from pending where namespace_id = p_ns and run_id = p_run and kind = 5)
    where namespace_id = p_ns and run_id = p_run;
  update run_facts set status = 0 where namespace_id = p_ns and run_id = p_run returning deadline into ends;
  update pending set due = ends where namespace_id = p_ns and run_id = p_run and kind = 4;
  update quarantines set released_at = now_ms() where namespace_id = p_ns and run_id = p_run and released_at is null;
  return true;
end $$;

CREATE FUNCTION public.release_runs(p_worker bigint, p_ns uuid[], p_run uuid[]) RETURNS bigint
    LANGUAGE sql
    AS $$
  with mine as (
    select r.namespace_id, r.run_id from runs r
    where (r.namespace_id, r.run_id) in (select * from unnest(p_ns, p_run)) and r.owner = p_worker
    order by r.namespace_id, r.run_id for no key update),
  released as (
    update runs r set owner = null, ready = (r.status = 0 and r.last_event > r.delivered)
      from mine m where r.namespace_id = m.namespace_id and r.run_id = m.run_id returning r.ready)
  select count(*) from released where ready
$$;

CREATE FUNCTION public.release_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_after bigint[], p_lease bigint[] DEFAULT NULL::bigint[]) RETURNS TABLE(i integer, ok boolean)
    LANGUAGE sql
    AS $$
  with asked as (
    select * from unnest(p_ns, p_run, p_n, p_attempt, p_releases, p_after, p_lease)
      with ordinality a (ns, run, n, attempt, releases, after, lease, i)),
  kept as (
    update pending p set claim_id = null, lease_until = null, handed = false, attempt = p.attempt - 1, releases = p.releases + 1,
      begun_at = case when p.attempt = 1 then null else p.begun_at end,
      due = case when p.attempt > 1 then p.due when p.due_why = 1 then null when p.due_why = 2 then now_ms()
        when p.due_why = 3 then now_ms() + 30000 else p.due end,
      due_why = case when p.due_why = 1 and p.attempt = 1 then null else p.due_why end,
      available_at = case when a.after is null then null else now_ms() + a.after end
    from asked a
    where p.namespace_id = a.ns and p.run_id = a.run and p.kind = 0 and p.n = a.n and p.attempt = a.attempt
      and p.releases = a.releases and p.claim_id is not null
      and (a.lease is null or p.lease_until = a.lease)
    returning a.i)
  select a.i::int, k.i is not null from asked a left join kept k using (i) order by a.i
$$;

CREATE FUNCTION public.renew_calls(p_claim uuid, p_lease_ms bigint) RETURNS TABLE(namespace_id uuid, run_id uuid, n integer, attempt smallint)
    LANGUAGE sql
    AS $$
  update pending p set lease_until = now_ms() + p_lease_ms where p.claim_id = p_claim and p.kind = 0 and p.route = 1
    returning p.namespace_id, p.run_id, p.n, p.attempt
$$;

CREATE FUNCTION public.request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call integer, p_seq integer, p_tool text, p_at bigint, p_expires bigint) RETURNS void
    LANGUAGE sql
    AS $$
  insert into approvals (namespace_id, run_id, call, organization_id, tool, seq, requested_at, expires_at)
    select p_ns, p_run, p_call, p_organization, p_tool, p_seq, p_at, least(p_at + p_expires, f.deadline)
    from run_facts f where f.namespace_id = p_ns and f.run_id = p_run;
  select emit_event(p_ns, p_organization, 'approval.requested', p_run, p_seq, p_call)
$$;

COMMENT ON FUNCTION public.request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call integer, p_seq integer, p_tool text, p_at bigint, p_expires bigint) IS 'In the append that makes a gated call pending. p_expires null: it waits as long as the run.';

CREATE FUNCTION public.resume_organization(p_org uuid) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
  update organizations set suspended_at = null, suspended_reason = null where id = p_org and suspended_at is not null;
  if not found then return false; end if;
  update namespaces set suspended_at = null, suspended_with_organization = false
    where organization_id = p_org and suspended_with_organization;
  return true;
end $$;

COMMENT ON FUNCTION public.resume_organization(p_org uuid) IS 'False: it is not suspended.';

CREATE FUNCTION public.retry_call(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_attempt smallint, p_after bigint) RETURNS boolean
    LANGUAGE sql
    AS $$
  update pending p set claim_id = null, lease_until = null, available_at = now_ms() + p_after
    where p.namespace_id = p_ns and p.run_id = p_run and p.kind = 0 and p.n = p_n and p.attempt = p_attempt
      and p.claim_id = p_claim and not p.stopping
    returning true
$$;

CREATE FUNCTION public.rewind_confined() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ select coalesce(current_setting('rewind.confined', true), '') = 'on' $$;

COMMENT ON FUNCTION public.rewind_confined() IS 'The caller is a token: it sees its namespace only.';

CREATE FUNCTION public.rewind_namespace() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ select nullif(current_setting('rewind.namespace', true), '')::uuid $$;

CREATE FUNCTION public.rewind_organization() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ select nullif(current_setting('rewind.organization', true), '')::uuid $$;

CREATE FUNCTION public.run_query(p_ns uuid, p_exact text[], p_q text) RETURNS tsquery
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  select string_agg(lexeme, ' & ')::tsquery from (
    select '''' || right(p_ns::text, 12) || '/' || replace(replace(term, '\', '\\'), '''', '''''') || '''' as lexeme
      from unnest(p_exact) term
    union all select '''' || right(p_ns::text, 12) || '/w:' || word || ''':*'
      from regexp_split_to_table(lower(p_q), '[^[:alnum:]]+') word where word <> '') lexemes
$$;

CREATE FUNCTION public.run_terms(p_ns uuid, p_labels jsonb, p_script text, p_toolset text, p_toolset_digest text, p_workflow text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  with said as (
    select l.key, l.value from jsonb_each_text(p_labels) l
    union all select null, p_toolset where p_toolset is not null
    union all select null, p_workflow where p_workflow is not null)
  select array_to_tsvector(array(
    select distinct right(p_ns::text, 12) || '/' || term from (
      select 'l:' || key || '=' || value as term from said where key is not null
      union all select 's:' || p_script
      union all select 't:' || p_toolset where p_toolset is not null
      union all select 't:' || p_toolset || '@' || p_toolset_digest where p_toolset is not null
      union all select 'f:' || p_workflow where p_workflow is not null
      union all select 'w:' || word from said,
        regexp_split_to_table(lower(coalesce(key, '') || ' ' || value), '[^[:alnum:]]+') word where word <> ''
    ) terms where term is not null))
$$;

CREATE TABLE public.seals (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    root bytea NOT NULL,
    entries integer NOT NULL,
    sealed_at bigint NOT NULL,
    previous bytea,
    "position" bigint DEFAULT 0 NOT NULL
);

ALTER TABLE ONLY public.seals FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.seals.previous IS 'The link before this one; null: the first of its namespace. The link of a seal is the SHA-256 of "rewind/1\n" and previous, run id and root, joined by "\n" (digests in hex, previous empty for the first).';

COMMENT ON COLUMN public.seals."position" IS 'Place in the chain of the namespace, from 1.';

CREATE FUNCTION public.seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries integer) RETURNS public.seals
    LANGUAGE plpgsql
    AS $$
declare
  known seals%rowtype;
  head seal_heads%rowtype;
begin
  insert into seal_heads (namespace_id, link) values (p_ns, '') on conflict do nothing;
  select * into head from seal_heads where namespace_id = p_ns for update;
  select * into known from seals where namespace_id = p_ns and run_id = p_run;
  if found then return known; end if;
  insert into seals (namespace_id, run_id, root, entries, sealed_at, previous, position)
    values (p_ns, p_run, p_root, p_entries, now_ms(), nullif(head.link, ''), head.position + 1) returning * into known;
  update seal_heads set position = head.position + 1, link = sha256(convert_to(
      E'rewind/1\n' || encode(head.link, 'hex') || E'\n' || p_run || E'\n' || encode(p_root, 'hex'), 'UTF8'))
    where namespace_id = p_ns;
  update run_facts set sealed = true where namespace_id = p_ns and run_id = p_run;
  return known;
end $$;

COMMENT ON FUNCTION public.seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries integer) IS 'Sealing again answers the seal that is there.';

CREATE FUNCTION public.start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea, p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb DEFAULT NULL::jsonb, p_fork_report bytea DEFAULT NULL::bytea, OUT outcome text, OUT run uuid, OUT refusal jsonb) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
  if p_fork is not null then  -- until this is committed nobody deletes the parent, and afterwards not before the fork is made
    perform from runs where namespace_id = p_ns and run_id = (p_parent ->> 'run')::uuid for key share;
    if not found then outcome := 'gone'; end if;
  end if;
  if outcome is null then
    refusal := admit_run(p_ns, p_organization);
    if refusal is not null then outcome := 'refused'; end if;
  end if;
  if outcome is not null then  -- nothing is kept of it, its key neither
    delete from idempotency where organization_id = p_organization and namespace_id = p_ns and route = p_route
      and key = p_key;
    run := p_run;
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

COMMENT ON FUNCTION public.start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea, p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb, p_fork_report bytea, OUT outcome text, OUT run uuid, OUT refusal jsonb) IS 'p_held: p_at is ahead; nobody may claim the run before that, or before it is cancelled. p_fork: the run is a fork (see 0009); p_at is its parent''s time.';

CREATE FUNCTION public.suspend_namespace(p_ns uuid) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
  update namespaces set suspended_at = now_ms() where id = p_ns and suspended_at is null;
  if not found then return false; end if;
  perform 1 from runs where namespace_id = p_ns and owner is not null order by run_id for no key update;
  update runs set owner = null, ready = (status = 0 and last_event > delivered)
    where namespace_id = p_ns and owner is not null;
  return true;
end $$;

CREATE FUNCTION public.suspend_organization(p_org uuid, p_reason text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
  update organizations set suspended_at = now_ms(), suspended_reason = p_reason where id = p_org and suspended_at is null;
  if not found then return false; end if;
  update namespaces set suspended_at = now_ms(), suspended_with_organization = true
    where organization_id = p_org and suspended_at is null;
  perform 1 from runs r where r.owner is not null and r.namespace_id in (
      select n.id from namespaces n where n.organization_id = p_org and n.suspended_with_organization)
    order by r.namespace_id, r.run_id for no key update;
  update runs r set owner = null, ready = (r.status = 0 and r.last_event > r.delivered)
    where r.owner is not null and r.namespace_id in (
      select n.id from namespaces n where n.organization_id = p_org and n.suspended_with_organization);
  return true;
end $$;

COMMENT ON FUNCTION public.suspend_organization(p_org uuid, p_reason text) IS 'False: it is suspended already.';

CREATE FUNCTION public.today() RETURNS date
    LANGUAGE sql STABLE
    AS $$
  select (to_timestamp(now_ms() / 1000.0) at time zone 'UTC')::date
$$;

CREATE FUNCTION public.uuid_v7(p_at bigint) RETURNS uuid
    LANGUAGE sql
    AS $$
  select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send(p_at) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
$$;

CREATE FUNCTION public.withdraw_approval(p_ns uuid, p_run uuid, p_call integer, p_at bigint) RETURNS void
    LANGUAGE sql
    AS $$
  update approvals set status = 4, decided_at = p_at
    where namespace_id = p_ns and run_id = p_run and call = p_call and status = 0
$$;

COMMENT ON FUNCTION public.withdraw_approval(p_ns uuid, p_run uuid, p_call integer, p_at bigint) IS 'Its call has an outcome without a decision: nobody can decide it any more.';

CREATE TABLE public.api_keys (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    prefix text NOT NULL,
    secret_sha256 bytea NOT NULL,
    scopes text[] NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    created_at bigint NOT NULL,
    last_used_at bigint,
    allow_ips text[] DEFAULT '{}'::text[] NOT NULL,
    previous_sha256 bytea,
    previous_until bigint,
    operator text,
    older_sha256 bytea,
    older_until bigint
);

ALTER TABLE ONLY public.api_keys FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.api_keys.prefix IS 'The first characters of the key, shown so that its owner can recognise it.';

COMMENT ON COLUMN public.api_keys.allow_ips IS 'Networks that it may be used from; none: all.';

COMMENT ON COLUMN public.api_keys.previous_sha256 IS 'The secret before the last rotation, which works until previous_until.';

COMMENT ON COLUMN public.api_keys.operator IS 'An operator who looks into the organization with it: reads only, and each read is audited.';

COMMENT ON COLUMN public.api_keys.older_sha256 IS 'The secret before the one in previous_sha256, of a key rotated twice within the overlap; it works until older_until.';

CREATE TABLE public.approvals (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    call integer NOT NULL,
    organization_id uuid NOT NULL,
    tool text NOT NULL COLLATE pg_catalog."C",
    seq integer NOT NULL,
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    decided_seq integer,
    decided_at bigint
);

ALTER TABLE ONLY public.approvals FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.approvals.seq IS 'Of the schedule_tool_call.';

COMMENT ON COLUMN public.approvals.expires_at IS 'As the tool says, but not after the run''s deadline.';

COMMENT ON COLUMN public.approvals.status IS '0 pending, 1 approved, 2 denied, 3 expired, 4 withdrawn undecided (shown as expired).';

CREATE TABLE public.audit_log (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    at bigint NOT NULL,
    actor_kind text NOT NULL,
    actor_id text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    ip text,
    before jsonb,
    after jsonb
);

ALTER TABLE ONLY public.audit_log FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.audit_log IS 'Who did what to what, for those who answer for it. Append-only by grant.';

CREATE TABLE public.blobs (
    namespace_id uuid NOT NULL,
    sha256 bytea NOT NULL,
    touched_at bigint NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL
);

ALTER TABLE ONLY public.blobs FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.blobs IS 'Written before the object is, so that no object lacks its row. The collector holds the row while it deletes the object: whoever puts the same value waits, and puts it after that.';

COMMENT ON COLUMN public.blobs.touched_at IS 'When the value was last put, or last found to be named by a run.';

CREATE TABLE public.bulk_cancels (
    namespace_id uuid NOT NULL,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    filter jsonb NOT NULL,
    reason text,
    actor_kind text NOT NULL,
    actor_id text NOT NULL,
    before uuid NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.bulk_cancels FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.bulk_cancels IS 'POST /runs/cancel with more runs than one request cancels: the scheduler goes on, newest first.';

COMMENT ON COLUMN public.bulk_cancels.before IS 'Runs with smaller ids are still to be looked at; what was started after the request is not concerned.';

CREATE TABLE public.checked_scripts (
    namespace_id uuid NOT NULL,
    script text NOT NULL COLLATE pg_catalog."C",
    toolset_digest text NOT NULL COLLATE pg_catalog."C",
    epoch smallint NOT NULL,
    toolset text COLLATE pg_catalog."C",
    checker text NOT NULL,
    input_type text,
    output_type text,
    input_schema text NOT NULL,
    warnings text NOT NULL,
    checked_at bigint NOT NULL
);

ALTER TABLE ONLY public.checked_scripts FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.checked_scripts IS 'Scripts without errors only: a refused script is not kept.';

COMMENT ON COLUMN public.checked_scripts.toolset_digest IS 'Empty: checked without tools.';

COMMENT ON COLUMN public.checked_scripts.toolset IS '`name@digest` as it was first checked; the name says nothing about the types.';

COMMENT ON COLUMN public.checked_scripts.checker IS 'Version of the checker: what another one said is checked again.';

COMMENT ON COLUMN public.checked_scripts.input_schema IS 'JSON Schema of main''s input, from its type. JSON text, which may hold U+0000 escaped.';

COMMENT ON COLUMN public.checked_scripts.warnings IS 'Diagnostics, a JSON array.';

CREATE TABLE public.child_outbox (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    orphaned boolean NOT NULL,
    at bigint NOT NULL,
    ident uuid DEFAULT gen_random_uuid() NOT NULL
);

ALTER TABLE ONLY public.child_outbox FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.child_outbox IS 'Children that have ended, for whoever awaits them to be told; orphaned: children that are to be cancelled, because the run that awaited them has ended.';

COMMENT ON COLUMN public.child_outbox.ident IS 'Another one each time that there is something to tell.';

CREATE TABLE public.clock (
    one boolean DEFAULT true NOT NULL,
    offset_ms bigint DEFAULT 0 NOT NULL,
    CONSTRAINT clock_one_check CHECK (one)
);

COMMENT ON TABLE public.clock IS 'Added to the database clock. Always 0 outside tests: only rewind_test may update it.';

CREATE TABLE public.compiled_scripts (
    namespace_id uuid NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    epoch smallint NOT NULL,
    compiled jsonb NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.compiled_scripts FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.compiled_scripts IS 'What the epoch''s stripper made of a script, so that replay never strips again.';

CREATE TABLE public.deliveries (
    organization_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    id uuid NOT NULL,
    namespace_id uuid NOT NULL,
    event_id uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    created_at bigint NOT NULL,
    at bigint,
    next_at bigint,
    lease_until bigint,
    response_code integer,
    error text,
    duration_ms integer,
    response_body bytea,
    CONSTRAINT deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
);

ALTER TABLE ONLY public.deliveries FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.deliveries.attempt IS 'Attempts made so far.';

COMMENT ON COLUMN public.deliveries.failures IS 'Place in the schedule of retries; a redelivery begins it anew.';

COMMENT ON COLUMN public.deliveries.next_at IS 'When it is tried next; null: not again.';

COMMENT ON COLUMN public.deliveries.lease_until IS 'A sender is at it until then at the latest.';

COMMENT ON COLUMN public.deliveries.response_body IS 'The beginning of the answer, sealed under the namespace''s key.';

CREATE TABLE public.entries (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    seq integer NOT NULL,
    type smallint NOT NULL,
    "time" bigint NOT NULL,
    cause integer,
    fire_at bigint,
    n integer,
    body bytea NOT NULL,
    CONSTRAINT entries_body_check CHECK ((octet_length(body) <= 400000))
);
ALTER TABLE ONLY public.entries ALTER COLUMN body SET STORAGE MAIN;

ALTER TABLE ONLY public.entries FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.entries IS 'The journals. Append-only: no role but rewind_retention may update or delete.';

COMMENT ON COLUMN public.entries.fire_at IS 'start_timer only: the append''s database time plus the delay.';

COMMENT ON COLUMN public.entries.n IS 'Number of the call, timer or wait that the entry is about; of a signal, a digest of its id: what entries are found by, since Postgres cannot read their bodies.';

COMMENT ON COLUMN public.entries.body IS 'Canonical JSON of the entry''s own fields (not seq, type, time, cause, fire_at), sealed under the namespace''s key and bound to run and type.';

CREATE TABLE public.events (
    namespace_id uuid NOT NULL,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    run_id uuid,
    sequence integer,
    call integer,
    endpoint_id uuid,
    at bigint NOT NULL,
    body bytea,
    detail jsonb
);

ALTER TABLE ONLY public.events FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.events IS 'What webhooks tell, kept for 30 days. namespace_id is all zeros where no namespace is concerned.';

COMMENT ON COLUMN public.events.sequence IS 'Seq of the journal entry that caused it.';

COMMENT ON COLUMN public.events.endpoint_id IS 'Only for this endpoint (ping).';

COMMENT ON COLUMN public.events.body IS 'The whole message, sealed under the namespace''s key; null until projected.';

COMMENT ON COLUMN public.events.detail IS 'Of quota.exceeded: the refusal.';

CREATE TABLE public.held_events (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    n integer NOT NULL,
    guard smallint NOT NULL,
    entry_n integer NOT NULL,
    signal_id text COLLATE pg_catalog."C",
    type smallint NOT NULL,
    body bytea NOT NULL,
    not_before bigint NOT NULL
);

ALTER TABLE ONLY public.held_events FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.held_events IS 'Signals and cancels of forks that are still being made, in the order in which they came.';

CREATE TABLE public.idempotency (
    organization_id uuid NOT NULL,
    namespace_id uuid NOT NULL,
    route text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    request_sha256 bytea NOT NULL,
    object_id text NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.idempotency FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.idempotency.namespace_id IS 'All zeros for calls that belong to no namespace.';

CREATE TABLE public.identities (
    issuer text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    person_id uuid NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.identities FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.identities IS 'Accounts at OpenID providers that a person signs in with.';

CREATE TABLE public.invitations (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    email text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    secret_sha256 bytea NOT NULL,
    invited_by uuid NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    settled_at bigint,
    CONSTRAINT invitations_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'developer'::text, 'admin'::text, 'owner'::text])))
);

ALTER TABLE ONLY public.invitations FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.invitations.settled_at IS 'Accepted or withdrawn.';

CREATE TABLE public.login_failures (
    subject text NOT NULL COLLATE pg_catalog."C",
    failures integer NOT NULL,
    since bigint NOT NULL,
    blocked_until bigint NOT NULL
);

ALTER TABLE ONLY public.login_failures FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.login_failures IS 'Wrong sign-ins by account and by address: `account:` or `address:` and a digest.';

CREATE TABLE public.mails (
    id uuid NOT NULL,
    recipient text NOT NULL,
    subject text NOT NULL,
    body text NOT NULL,
    created_at bigint NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    next_at bigint,
    sent_at bigint,
    error text
);

ALTER TABLE ONLY public.mails FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.mails IS 'Written in the transaction of what they tell, sent by a loop. Kept for 7 days.';

CREATE TABLE public.members (
    organization_id uuid NOT NULL,
    person_id uuid NOT NULL,
    role text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    CONSTRAINT members_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'developer'::text, 'admin'::text, 'owner'::text])))
);

ALTER TABLE ONLY public.members FORCE ROW LEVEL SECURITY;

CREATE TABLE public.namespace_keys (
    namespace_id uuid NOT NULL,
    wrapped bytea,
    created_at bigint NOT NULL,
    destroyed_at bigint,
    CONSTRAINT namespace_keys_check CHECK (((wrapped IS NULL) = (destroyed_at IS NOT NULL)))
);

ALTER TABLE ONLY public.namespace_keys FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.namespace_keys IS 'One row per namespace, made at first use and never deleted: a destroyed key is not made again. Small enough for backups of its own, which should be kept for less time than the others.';

COMMENT ON COLUMN public.namespace_keys.wrapped IS 'The key under the data master key (REWIND_DATA_KEY_FILE), whose mark it begins with; null: destroyed.';

CREATE TABLE public.namespaces (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at bigint NOT NULL,
    suspended_at bigint,
    retention_days integer,
    deleted_at bigint,
    erased_at bigint,
    suspended_with_organization boolean DEFAULT false NOT NULL,
    CONSTRAINT namespaces_retention_days_check CHECK (((retention_days >= 1) AND (retention_days <= 3650)))
);

ALTER TABLE ONLY public.namespaces FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.namespaces.retention_days IS 'How long runs are kept after their end; null: as the deployment says (30 days).';

COMMENT ON COLUMN public.namespaces.deleted_at IS 'Its name is free again: the row is called ~ and its id, which no request can name.';

COMMENT ON COLUMN public.namespaces.erased_at IS 'Nothing of it is left but this row and its destroyed key.';

COMMENT ON COLUMN public.namespaces.suspended_with_organization IS 'Only the organization''s resumption resumes it.';

CREATE TABLE public.organization_domains (
    organization_id uuid NOT NULL,
    domain text NOT NULL COLLATE pg_catalog."C",
    token text NOT NULL,
    created_at bigint NOT NULL,
    proven_at bigint,
    sso_required_at bigint,
    CONSTRAINT organization_domains_check CHECK (((sso_required_at IS NULL) OR (proven_at IS NOT NULL)))
);

ALTER TABLE ONLY public.organization_domains FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.organization_domains.token IS 'What a TXT record of the domain has to hold.';

COMMENT ON COLUMN public.organization_domains.sso_required_at IS 'Since when members with such an address sign in by SSO only.';

CREATE TABLE public.organizations (
    id uuid NOT NULL,
    name text NOT NULL,
    created_at bigint NOT NULL,
    suspended_at bigint,
    plan text DEFAULT 'open'::text NOT NULL COLLATE pg_catalog."C",
    limits jsonb DEFAULT '{}'::jsonb NOT NULL,
    deleted_at bigint,
    purged_at bigint,
    suspended_reason text,
    purging_at bigint,
    CONSTRAINT organizations_check CHECK (((purged_at IS NULL) OR (deleted_at IS NOT NULL))),
    CONSTRAINT organizations_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200)))
);

ALTER TABLE ONLY public.organizations FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.organizations.plan IS 'See billing/plans.py; open: no limits but those of the engine.';

COMMENT ON COLUMN public.organizations.limits IS 'What the plan allows each namespace, by quota; written with the plan.';

COMMENT ON COLUMN public.organizations.deleted_at IS 'Closed since then; an owner may restore it until it is purged.';

COMMENT ON COLUMN public.organizations.purged_at IS 'The data keys of its namespaces are destroyed, its people and keys are gone.';

COMMENT ON COLUMN public.organizations.suspended_reason IS 'Told to its members and callers.';

COMMENT ON COLUMN public.organizations.purging_at IS 'When its purge began: from then on it cannot be restored.';

CREATE TABLE public.passkeys (
    credential_id bytea NOT NULL,
    person_id uuid NOT NULL,
    name text NOT NULL,
    public_key bytea NOT NULL,
    sign_count bigint NOT NULL,
    created_at bigint NOT NULL,
    last_used_at bigint
);

ALTER TABLE ONLY public.passkeys FORCE ROW LEVEL SECURITY;

CREATE TABLE public.pending (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    kind smallint NOT NULL,
    n integer NOT NULL,
    seq integer NOT NULL,
    since bigint NOT NULL,
    line integer,
    name text COLLATE pg_catalog."C",
    due bigint,
    due_why smallint,
    organization_id uuid,
    toolset text COLLATE pg_catalog."C",
    route smallint,
    idempotent boolean DEFAULT false NOT NULL,
    gated boolean DEFAULT false NOT NULL,
    deferred boolean DEFAULT false NOT NULL,
    stopping boolean DEFAULT false NOT NULL,
    available_at bigint,
    timeout_ms bigint,
    attempt smallint DEFAULT 0 NOT NULL,
    releases integer DEFAULT 0 NOT NULL,
    begun_at bigint,
    claim_id uuid,
    lease_until bigint,
    handed boolean DEFAULT false NOT NULL,
    pace jsonb,
    slot text COLLATE pg_catalog."C",
    queue_ms bigint
)
WITH (autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE ONLY public.pending FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.pending IS 'One row per thing that a run waits for, inserted by its command and deleted by the event that settles it: that delete is the guard of an event append.';

COMMENT ON COLUMN public.pending.kind IS '0 tool call, 1 timer, 2 signal wait, 4 deadline of the run, 5 its start, 6 its abandonment.';

COMMENT ON COLUMN public.pending.name IS 'The tool, the signal, or why the timer was started.';

COMMENT ON COLUMN public.pending.due IS 'When the scheduler acts: timers fire; for calls see due_why.';

COMMENT ON COLUMN public.pending.due_why IS 'Calls: 1 the call''s timeout, 2 told to stop (cancelled), 3 clean-up call, 4 deferral expires, 5 approval expires, 6 deferred and withdrawn.';

COMMENT ON COLUMN public.pending.route IS 'Calls: 0 host tool (claimed by workers of the customer), 1 dispatcher; 2 and 3 the same, kept back while as many calls of the run as may be are in flight.';

COMMENT ON COLUMN public.pending.attempt IS 'Attempts begun; 0: not begun, may be withdrawn.';

COMMENT ON COLUMN public.pending.releases IS 'How often the call was given back unstarted; with the attempt it names one lease.';

COMMENT ON COLUMN public.pending.claim_id IS 'The claim that holds the lease; the same claim_id again is answered with the same tasks. Without a lease: the child run that the call waits for.';

COMMENT ON COLUMN public.pending.handed IS 'A claim was answered with this lease; false: an append leased the call to a claim that was parked.';

COMMENT ON COLUMN public.pending.pace IS 'Of a call whose tool has limits, as its draft says: {slot, slots?, rate?, rate_limit?, per_ms?, queue_ms?}.';

COMMENT ON COLUMN public.pending.slot IS 'Calls of an organization with the same one share the limits of their pace.';

COMMENT ON COLUMN public.pending.queue_ms IS 'How long the call may wait on offer before its first claim.';

CREATE TABLE public.people (
    id uuid NOT NULL,
    email text NOT NULL COLLATE pg_catalog."C",
    name text DEFAULT ''::text NOT NULL,
    password_hash text,
    totp_secret bytea,
    totp_since bigint,
    totp_last_step bigint,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.people FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.people.email IS 'In the form that e-mail addresses are compared in: lower case.';

COMMENT ON COLUMN public.people.password_hash IS 'argon2id; null: signs in by a provider or a passkey.';

COMMENT ON COLUMN public.people.totp_secret IS 'Sealed; in force once totp_since is set.';

COMMENT ON COLUMN public.people.totp_last_step IS 'The last time step that was used: none is accepted twice.';

CREATE TABLE public.quarantines (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    at bigint NOT NULL,
    report bytea NOT NULL,
    released_at bigint
);

ALTER TABLE ONLY public.quarantines FORCE ROW LEVEL SECURITY;

CREATE TABLE public.quota_notices (
    namespace_id uuid NOT NULL,
    quota text NOT NULL COLLATE pg_catalog."C",
    period text NOT NULL COLLATE pg_catalog."C"
);

ALTER TABLE ONLY public.quota_notices FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.quota_notices IS 'quota.exceeded was told for this quota and window: the month, or the day.';

CREATE TABLE public.quotas (
    namespace_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    limits jsonb NOT NULL
);

ALTER TABLE ONLY public.quotas FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.quotas IS 'Limits of a namespace that replace those of the plan.';

CREATE TABLE public.rate_marks (
    organization_id uuid NOT NULL,
    rate text NOT NULL COLLATE pg_catalog."C",
    bucket bigint NOT NULL,
    count integer NOT NULL
);

ALTER TABLE ONLY public.rate_marks FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.rate_marks IS 'How many calls of a rate began in each twentieth of its time. A window of 21 of them is never shorter than that time, so no window of that time has more than the limit.';

CREATE TABLE public.recovery_codes (
    person_id uuid NOT NULL,
    code_sha256 bytea NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.recovery_codes FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.recovery_codes IS '80 random bits each, in place of a code of the app; using one deletes it.';

CREATE TABLE public.replays (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    id uuid NOT NULL,
    created_at bigint NOT NULL,
    deadline bigint NOT NULL,
    answer bytea
);

ALTER TABLE ONLY public.replays FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.replays IS 'Results of POST /runs/{id}/replay that were not ready in time; the replay itself is a row of sandbox_requests. answer: sealed, null while it runs; past its deadline it is lost, and may be asked for again.';

CREATE TABLE public.resets (
    secret_sha256 bytea NOT NULL,
    person_id uuid NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

ALTER TABLE ONLY public.resets FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.resets IS 'Mailed secrets that set a new password; each works once: using it deletes it.';

CREATE TABLE public.run_facts (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    script text NOT NULL COLLATE pg_catalog."C",
    toolset text COLLATE pg_catalog."C",
    toolset_digest text COLLATE pg_catalog."C",
    workflow text COLLATE pg_catalog."C",
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    parent jsonb,
    started_at bigint NOT NULL,
    ended_at bigint,
    end_seq integer,
    deadline bigint NOT NULL,
    progress bytea,
    sealed boolean DEFAULT false NOT NULL,
    fork jsonb,
    fork_report bytea,
    journal_bytes bigint,
    terms tsvector GENERATED ALWAYS AS (public.run_terms(namespace_id, labels, script, toolset, toolset_digest, workflow)) STORED
);

ALTER TABLE ONLY public.run_facts FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.run_facts IS 'What lists and filters read; written at the start and at the end of a run only (and progress, when the script reports it).';

COMMENT ON COLUMN public.run_facts.sealed IS 'The run has ended and its seal is in seals.';

COMMENT ON COLUMN public.run_facts.fork IS 'Of forks: {forked_at, at?}.';

COMMENT ON COLUMN public.run_facts.fork_report IS 'Sealed JSON: what a fork reuses, as the API shows it.';

COMMENT ON COLUMN public.run_facts.terms IS 'See run_terms.';

CREATE TABLE public.runs (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    epoch smallint NOT NULL,
    next_seq integer NOT NULL,
    commands integer DEFAULT 0 NOT NULL,
    last_time bigint NOT NULL,
    last_event integer NOT NULL,
    delivered integer DEFAULT '-1'::integer NOT NULL,
    owner bigint,
    owner_epoch integer DEFAULT 0 NOT NULL,
    ready boolean NOT NULL,
    cancel_seq integer,
    cpu_us bigint DEFAULT 0 NOT NULL,
    activations integer DEFAULT 0 NOT NULL,
    calls integer DEFAULT 0 NOT NULL,
    forking boolean DEFAULT false NOT NULL,
    metered_us bigint DEFAULT 0 NOT NULL,
    metered_calls integer DEFAULT 0 NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE ONLY public.runs FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.runs.status IS '0 active, 1 completed, 2 failed, 3 cancelled, 4 aborted, 5 quarantined.';

COMMENT ON COLUMN public.runs.commands IS 'Commands recorded: part of the guard of a command append.';

COMMENT ON COLUMN public.runs.last_time IS 'Time of the last event; the next event is not earlier.';

COMMENT ON COLUMN public.runs.last_event IS 'Seq of the last event that is delivered to the script.';

COMMENT ON COLUMN public.runs.delivered IS 'Seq of the last event that the owner finished: survived, with its commands appended.';

COMMENT ON COLUMN public.runs.owner_epoch IS 'Counts the owners: an append of a former owner is refused.';

COMMENT ON COLUMN public.runs.ready IS 'An event waits and nobody owns the run. Changed only together with owner, so that appends to an owned run update no index.';

COMMENT ON COLUMN public.runs.cancel_seq IS 'Of the cancel_requested; null while nobody has asked.';

COMMENT ON COLUMN public.runs.forking IS 'A fork whose reused entries are not all recorded yet.';

COMMENT ON COLUMN public.runs.metered_us IS 'Of cpu_us, what stands in usage; the rest follows at the end, or once it is a second.';

CREATE UNLOGGED TABLE public.sandbox_requests (
    id uuid NOT NULL,
    namespace_id uuid NOT NULL,
    kind text NOT NULL,
    payload bytea NOT NULL,
    created_at bigint NOT NULL,
    deadline bigint NOT NULL,
    worker_id bigint,
    answered_at bigint,
    answer bytea,
    failure bytea
);

ALTER TABLE ONLY public.sandbox_requests FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.sandbox_requests IS 'What the control plane asks of the sandbox (strip, check, replay). Unlogged: lost in a crash of Postgres, then asked again.';

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE public.scripts (
    namespace_id uuid NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.scripts FORCE ROW LEVEL SECURITY;

CREATE TABLE public.seal_heads (
    namespace_id uuid NOT NULL,
    link bytea NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL
);

ALTER TABLE ONLY public.seal_heads FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.seal_heads IS 'The last link of each namespace''s chain; its row lock orders the seals.';

CREATE TABLE public.secrets (
    organization_id uuid NOT NULL,
    namespace_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

ALTER TABLE ONLY public.secrets FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.secrets.namespace_id IS 'All zeros for a secret of the whole organization.';

COMMENT ON COLUMN public.secrets.sealed IS 'AES-GCM under the deployment''s secret key; bound to organization, namespace and name.';

CREATE TABLE public.sessions (
    id uuid NOT NULL,
    person_id uuid NOT NULL,
    secret_sha256 bytea NOT NULL,
    method text NOT NULL COLLATE pg_catalog."C",
    ip text NOT NULL,
    user_agent text NOT NULL,
    created_at bigint NOT NULL,
    last_used_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    proven_at bigint NOT NULL,
    connection_id uuid
);

ALTER TABLE ONLY public.sessions FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.sessions.method IS 'password, password+code, passkey, or oidc.';

COMMENT ON COLUMN public.sessions.proven_at IS 'When the person last proved who it is: what is dangerous asks for it anew.';

COMMENT ON COLUMN public.sessions.connection_id IS 'The organization''s provider that it was begun by.';

CREATE TABLE public.sign_in_steps (
    secret_sha256 bytea NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    person_id uuid,
    body jsonb DEFAULT '{}'::jsonb NOT NULL,
    expires_at bigint NOT NULL
);

ALTER TABLE ONLY public.sign_in_steps FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.sign_in_steps IS 'What a browser is in the middle of: at a provider, before its code, at a passkey. The secret is the browser''s, one for each tab; taking a step deletes it.';

CREATE TABLE public.signal_ids (
    namespace_id uuid NOT NULL,
    run_id uuid NOT NULL,
    signal_id text NOT NULL COLLATE pg_catalog."C",
    seq integer NOT NULL
);

ALTER TABLE ONLY public.signal_ids FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.signal_ids IS 'Signals are unique by id within a run while it is active.';

CREATE TABLE public.signups (
    secret_sha256 bytea NOT NULL,
    email text NOT NULL COLLATE pg_catalog."C",
    password_hash text NOT NULL,
    organization text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

ALTER TABLE ONLY public.signups FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.signups IS 'Asked for, not yet proven: the mailed secret and the password together make the person. So nobody makes an account of an address that is not theirs, and a link alone lets nobody in.';

CREATE TABLE public.sso_connections (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    issuer text NOT NULL COLLATE pg_catalog."C",
    client_id text NOT NULL,
    client_secret bytea,
    join_role text COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    CONSTRAINT sso_connections_join_role_check CHECK ((join_role = ANY (ARRAY['viewer'::text, 'developer'::text, 'admin'::text])))
);

ALTER TABLE ONLY public.sso_connections FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.sso_connections IS 'OpenID providers of organizations. Each speaks for the addresses of domains that its organization has proven, and for no others.';

COMMENT ON COLUMN public.sso_connections.id IS 'Part of its redirect URI: no two providers share one.';

COMMENT ON COLUMN public.sso_connections.client_secret IS 'Sealed; null: a public client.';

COMMENT ON COLUMN public.sso_connections.join_role IS 'What people become who sign in and are no members yet; null: they are not let in.';

CREATE TABLE public.tokens (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    namespace_id uuid NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    prefix text NOT NULL,
    secret_sha256 bytea NOT NULL,
    scopes text[] NOT NULL,
    narrow jsonb DEFAULT '{}'::jsonb NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    created_at bigint NOT NULL,
    last_used_at bigint
);

ALTER TABLE ONLY public.tokens FORCE ROW LEVEL SECURITY;

CREATE TABLE public.toolset_servers (
    organization_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.toolset_servers FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.toolset_servers IS 'Addresses and headers of the servers of a toolset version: apart from toolset_versions, which the data plane reads.';

CREATE TABLE public.toolset_versions (
    organization_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    definition jsonb NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.toolset_versions FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.toolset_versions IS 'Pinned tools, immutable. `latest` of a name stands in toolsets.';

CREATE TABLE public.toolsets (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    updated_at bigint NOT NULL,
    disabled jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE ONLY public.toolsets FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.toolsets.disabled IS 'Tools of the latest version that cannot be called, each with the reason: what the last refresh found.';

CREATE TABLE public.usage_days (
    namespace_id uuid NOT NULL,
    day date NOT NULL,
    runs integer DEFAULT 0 NOT NULL,
    scripts integer DEFAULT 0 NOT NULL,
    cpu_us bigint DEFAULT 0 NOT NULL,
    calls integer DEFAULT 0 NOT NULL,
    storage_bytes bigint DEFAULT 0 NOT NULL
);

ALTER TABLE ONLY public.usage_days FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.usage_days.storage_bytes IS 'What was added on that day, less what was deleted.';

CREATE TABLE public.usage_deltas (
    namespace_id uuid NOT NULL,
    id bigint NOT NULL,
    day date NOT NULL,
    ended integer DEFAULT 0 NOT NULL,
    cpu_us bigint DEFAULT 0 NOT NULL,
    calls integer DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL
);

ALTER TABLE ONLY public.usage_deltas FORCE ROW LEVEL SECURITY;

ALTER TABLE public.usage_deltas ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.usage_deltas_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.value_refs (
    namespace_id uuid NOT NULL,
    sha256 bytea NOT NULL,
    run_id uuid NOT NULL
);

ALTER TABLE ONLY public.value_refs FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.value_refs IS 'Written in the transaction of the append that names the value.';

CREATE TABLE public.webhook_endpoints (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    url text NOT NULL,
    secret bytea NOT NULL,
    previous_secret bytea,
    previous_until bigint,
    events text[] DEFAULT '{}'::text[] NOT NULL,
    namespaces text[] DEFAULT '{}'::text[] NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at bigint NOT NULL,
    failing_since bigint,
    disabled_at bigint,
    disabled_reason text
);

ALTER TABLE ONLY public.webhook_endpoints FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.webhook_endpoints.secret IS 'Sealed under the deployment''s secret key.';

COMMENT ON COLUMN public.webhook_endpoints.previous_secret IS 'Signs too until previous_until: receivers change over meanwhile.';

COMMENT ON COLUMN public.webhook_endpoints.events IS 'Types that it wants; empty: all. Likewise namespaces (names) and labels.';

COMMENT ON COLUMN public.webhook_endpoints.failing_since IS 'First failure since the last success; null: it works.';

CREATE TABLE public.workers (
    worker_id bigint NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    started_at bigint NOT NULL,
    heartbeat_at bigint NOT NULL,
    epochs smallint[] NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    drain_asked_at bigint
);

COMMENT ON TABLE public.workers IS 'Live worker processes. Each holds the advisory lock worker_id; a free lock means dead.';

COMMENT ON COLUMN public.workers.drain_asked_at IS 'It sees that with its next heartbeat, and leaves as on SIGTERM.';

CREATE TABLE public.workflow_versions (
    organization_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    script text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL,
    toolset text COLLATE pg_catalog."C",
    toolset_digest text COLLATE pg_catalog."C",
    description text NOT NULL,
    epoch smallint NOT NULL,
    checker text NOT NULL,
    compiled jsonb NOT NULL,
    input_type text,
    output_type text,
    input_schema jsonb NOT NULL,
    output_schema jsonb NOT NULL,
    warnings jsonb NOT NULL,
    created_at bigint NOT NULL
);

ALTER TABLE ONLY public.workflow_versions FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.workflow_versions IS 'Immutable, and kept when the workflow is deleted: toolsets are pinned to them.';

COMMENT ON COLUMN public.workflow_versions.compiled IS 'With what the checker said: copied to each namespace at its first use.';

CREATE TABLE public.workflows (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

ALTER TABLE ONLY public.workflows FORCE ROW LEVEL SECURITY;

COMMENT ON COLUMN public.workflows.digest IS 'The latest version: what new runs get.';

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_older_sha256_key UNIQUE (older_sha256);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_previous_sha256_key UNIQUE (previous_sha256);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_secret_sha256_key UNIQUE (secret_sha256);

ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (namespace_id, run_id, call);

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (namespace_id, sha256);

ALTER TABLE ONLY public.bulk_cancels
    ADD CONSTRAINT bulk_cancels_pkey PRIMARY KEY (namespace_id, id);

ALTER TABLE ONLY public.checked_scripts
    ADD CONSTRAINT checked_scripts_pkey PRIMARY KEY (namespace_id, script, toolset_digest, epoch);

ALTER TABLE ONLY public.child_outbox
    ADD CONSTRAINT child_outbox_pkey PRIMARY KEY (namespace_id, run_id, orphaned);

ALTER TABLE ONLY public.clock
    ADD CONSTRAINT clock_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.compiled_scripts
    ADD CONSTRAINT compiled_scripts_pkey PRIMARY KEY (namespace_id, digest, epoch);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_organization_id_endpoint_id_event_id_key UNIQUE (organization_id, endpoint_id, event_id);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (organization_id, endpoint_id, id);

ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (namespace_id, run_id, seq);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (namespace_id, id);

ALTER TABLE ONLY public.held_events
    ADD CONSTRAINT held_events_pkey PRIMARY KEY (namespace_id, run_id, n);

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (organization_id, namespace_id, route, key);

ALTER TABLE ONLY public.identities
    ADD CONSTRAINT identities_pkey PRIMARY KEY (issuer, subject);

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_secret_sha256_key UNIQUE (secret_sha256);

ALTER TABLE ONLY public.login_failures
    ADD CONSTRAINT login_failures_pkey PRIMARY KEY (subject);

ALTER TABLE ONLY public.mails
    ADD CONSTRAINT mails_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_pkey PRIMARY KEY (organization_id, person_id);

ALTER TABLE ONLY public.namespace_keys
    ADD CONSTRAINT namespace_keys_pkey PRIMARY KEY (namespace_id);

ALTER TABLE ONLY public.namespaces
    ADD CONSTRAINT namespaces_organization_id_name_key UNIQUE (organization_id, name);

ALTER TABLE ONLY public.namespaces
    ADD CONSTRAINT namespaces_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.organization_domains
    ADD CONSTRAINT organization_domains_pkey PRIMARY KEY (organization_id, domain);

ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.passkeys
    ADD CONSTRAINT passkeys_pkey PRIMARY KEY (credential_id);

ALTER TABLE ONLY public.pending
    ADD CONSTRAINT pending_pkey PRIMARY KEY (namespace_id, run_id, kind, n);

ALTER TABLE ONLY public.people
    ADD CONSTRAINT people_email_key UNIQUE (email);

ALTER TABLE ONLY public.people
    ADD CONSTRAINT people_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.quarantines
    ADD CONSTRAINT quarantines_pkey PRIMARY KEY (namespace_id, run_id, at);

ALTER TABLE ONLY public.quota_notices
    ADD CONSTRAINT quota_notices_pkey PRIMARY KEY (namespace_id, quota, period);

ALTER TABLE ONLY public.quotas
    ADD CONSTRAINT quotas_pkey PRIMARY KEY (namespace_id);

ALTER TABLE ONLY public.rate_marks
    ADD CONSTRAINT rate_marks_pkey PRIMARY KEY (organization_id, rate, bucket);

ALTER TABLE ONLY public.recovery_codes
    ADD CONSTRAINT recovery_codes_pkey PRIMARY KEY (person_id, code_sha256);

ALTER TABLE ONLY public.replays
    ADD CONSTRAINT replays_pkey PRIMARY KEY (namespace_id, run_id, id);

ALTER TABLE ONLY public.resets
    ADD CONSTRAINT resets_pkey PRIMARY KEY (secret_sha256);

ALTER TABLE ONLY public.run_facts
    ADD CONSTRAINT run_facts_pkey PRIMARY KEY (namespace_id, run_id);

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (namespace_id, run_id);

ALTER TABLE ONLY public.sandbox_requests
    ADD CONSTRAINT sandbox_requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.scripts
    ADD CONSTRAINT scripts_pkey PRIMARY KEY (namespace_id, digest);

ALTER TABLE ONLY public.seal_heads
    ADD CONSTRAINT seal_heads_pkey PRIMARY KEY (namespace_id);

ALTER TABLE ONLY public.seals
    ADD CONSTRAINT seals_pkey PRIMARY KEY (namespace_id, run_id);

ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (organization_id, namespace_id, name);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_secret_sha256_key UNIQUE (secret_sha256);

ALTER TABLE ONLY public.sign_in_steps
    ADD CONSTRAINT sign_in_steps_pkey PRIMARY KEY (secret_sha256);

ALTER TABLE ONLY public.signal_ids
    ADD CONSTRAINT signal_ids_pkey PRIMARY KEY (namespace_id, run_id, signal_id);

ALTER TABLE ONLY public.signups
    ADD CONSTRAINT signups_pkey PRIMARY KEY (secret_sha256);

ALTER TABLE ONLY public.sso_connections
    ADD CONSTRAINT sso_connections_id_key UNIQUE (id);

ALTER TABLE ONLY public.sso_connections
    ADD CONSTRAINT sso_connections_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_secret_sha256_key UNIQUE (secret_sha256);

ALTER TABLE ONLY public.toolset_servers
    ADD CONSTRAINT toolset_servers_pkey PRIMARY KEY (organization_id, name, digest);

ALTER TABLE ONLY public.toolset_versions
    ADD CONSTRAINT toolset_versions_pkey PRIMARY KEY (organization_id, name, digest);

ALTER TABLE ONLY public.toolsets
    ADD CONSTRAINT toolsets_pkey PRIMARY KEY (organization_id, name);

ALTER TABLE ONLY public.usage_counters
    ADD CONSTRAINT usage_counters_pkey PRIMARY KEY (namespace_id);

ALTER TABLE ONLY public.usage_days
    ADD CONSTRAINT usage_days_pkey PRIMARY KEY (namespace_id, day);

ALTER TABLE ONLY public.usage_deltas
    ADD CONSTRAINT usage_deltas_pkey PRIMARY KEY (namespace_id, id);

ALTER TABLE ONLY public.value_refs
    ADD CONSTRAINT value_refs_pkey PRIMARY KEY (namespace_id, sha256, run_id);

ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY public.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (worker_id);

ALTER TABLE ONLY public.workflow_versions
    ADD CONSTRAINT workflow_versions_pkey PRIMARY KEY (organization_id, name, digest);

ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (organization_id, name);

CREATE INDEX approvals_namespace ON public.approvals USING btree (namespace_id, requested_at, run_id, call);

CREATE INDEX approvals_open ON public.approvals USING btree (organization_id, requested_at, run_id, call) WHERE (status = 0);

CREATE INDEX approvals_organization ON public.approvals USING btree (organization_id, requested_at, run_id, call);

CREATE INDEX audit_log_newest ON public.audit_log USING btree (organization_id, id DESC);

CREATE INDEX blobs_touched ON public.blobs USING btree (touched_at);

CREATE INDEX child_outbox_at ON public.child_outbox USING btree (at);

CREATE INDEX deliveries_due ON public.deliveries USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE INDEX deliveries_event ON public.deliveries USING btree (namespace_id, event_id);

CREATE INDEX deliveries_leased ON public.deliveries USING btree (organization_id, endpoint_id, lease_until) WHERE (lease_until IS NOT NULL);

CREATE INDEX deliveries_waiting ON public.deliveries USING btree (organization_id, endpoint_id, next_at) WHERE (next_at IS NOT NULL);

CREATE INDEX events_at ON public.events USING btree (at);

CREATE INDEX events_listed ON public.events USING btree (organization_id, id);

CREATE INDEX events_unprojected ON public.events USING btree (at) WHERE (body IS NULL);

CREATE INDEX idempotency_age ON public.idempotency USING btree (created_at);

CREATE INDEX identities_person ON public.identities USING btree (person_id);

CREATE UNIQUE INDEX invitations_open ON public.invitations USING btree (organization_id, email) WHERE (settled_at IS NULL);

CREATE INDEX mails_due ON public.mails USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE INDEX members_person ON public.members USING btree (person_id);

CREATE INDEX namespaces_erasing ON public.namespaces USING btree (deleted_at) WHERE ((deleted_at IS NOT NULL) AND (erased_at IS NULL));

CREATE INDEX organization_domains_name ON public.organization_domains USING btree (domain) WHERE (proven_at IS NOT NULL);

CREATE INDEX organizations_deleted ON public.organizations USING btree (deleted_at) WHERE ((deleted_at IS NOT NULL) AND (purged_at IS NULL));

CREATE INDEX passkeys_person ON public.passkeys USING btree (person_id);

CREATE INDEX pending_children_stopping ON public.pending USING btree (namespace_id, run_id, n) WHERE ((kind = 0) AND stopping AND (claim_id IS NOT NULL) AND (lease_until IS NULL));

CREATE INDEX pending_claim ON public.pending USING btree (claim_id) WHERE (claim_id IS NOT NULL);

CREATE INDEX pending_dispatch ON public.pending USING btree (organization_id, toolset, split_part(name, '.'::text, 1), namespace_id, run_id, n) WHERE ((kind = 0) AND (route = 1) AND (claim_id IS NULL) AND (NOT gated) AND (NOT deferred) AND (NOT stopping) AND (slot IS NULL));

CREATE INDEX pending_due ON public.pending USING btree (due) WHERE (due IS NOT NULL);

CREATE INDEX pending_lease ON public.pending USING btree (lease_until) WHERE (lease_until IS NOT NULL);

CREATE INDEX pending_offered ON public.pending USING btree (organization_id, namespace_id, run_id, n) WHERE ((kind = 0) AND (route = 0) AND (claim_id IS NULL) AND (NOT gated) AND (NOT deferred) AND (slot IS NULL));

CREATE INDEX pending_paced ON public.pending USING btree (organization_id, slot, namespace_id, run_id, n) WHERE ((kind = 0) AND (route = 0) AND (slot IS NOT NULL) AND (claim_id IS NULL) AND (NOT gated) AND (NOT deferred) AND (NOT stopping));

CREATE INDEX pending_paced_dispatch ON public.pending USING btree (slot, organization_id, namespace_id, run_id, n) WHERE ((kind = 0) AND (route = 1) AND (slot IS NOT NULL) AND (claim_id IS NULL) AND (NOT gated) AND (NOT deferred) AND (NOT stopping));

CREATE INDEX pending_slots ON public.pending USING btree (organization_id, slot) WHERE ((slot IS NOT NULL) AND ((claim_id IS NOT NULL) OR deferred));

CREATE INDEX replays_by_age ON public.replays USING btree (namespace_id, created_at);

CREATE INDEX resets_person ON public.resets USING btree (person_id);

CREATE INDEX run_facts_ended ON public.run_facts USING btree (namespace_id, ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX run_facts_parent ON public.run_facts USING btree (namespace_id, ((parent ->> 'run'::text)), run_id) WHERE (parent IS NOT NULL);

CREATE INDEX run_facts_started ON public.run_facts USING btree (namespace_id, started_at);

CREATE INDEX run_facts_status ON public.run_facts USING btree (namespace_id, status, run_id);

CREATE INDEX run_facts_terms ON public.run_facts USING gin (terms);

CREATE INDEX run_facts_unsealed ON public.run_facts USING btree (ended_at) WHERE ((ended_at IS NOT NULL) AND (NOT sealed));

CREATE INDEX runs_owner ON public.runs USING btree (owner) WHERE (owner IS NOT NULL);

CREATE INDEX runs_ready ON public.runs USING btree (namespace_id, run_id) WHERE ready;

CREATE INDEX sandbox_requests_open ON public.sandbox_requests USING btree (created_at) WHERE (answered_at IS NULL);

CREATE INDEX scripts_listed ON public.scripts USING btree (namespace_id, created_at DESC, digest DESC);

CREATE UNIQUE INDEX seals_chain ON public.seals USING btree (namespace_id, "position");

CREATE INDEX sessions_expiry ON public.sessions USING btree (expires_at);

CREATE INDEX sessions_person ON public.sessions USING btree (person_id);

CREATE INDEX sign_in_steps_expiry ON public.sign_in_steps USING btree (expires_at);

CREATE INDEX sign_in_steps_person ON public.sign_in_steps USING btree (person_id);

CREATE INDEX signups_expiry ON public.signups USING btree (expires_at);

CREATE INDEX value_refs_run ON public.value_refs USING btree (namespace_id, run_id);

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.api_keys FOR EACH ROW EXECUTE FUNCTION public.audit_change('key', 'id', 'name prefix scopes allow_ips expires_at revoked_at operator');

CREATE TRIGGER audited AFTER UPDATE OF status ON public.approvals FOR EACH ROW WHEN (((old.status = 0) AND (new.status = ANY (ARRAY[1, 2])))) EXECUTE FUNCTION public.audit_approval();

CREATE TRIGGER audited AFTER INSERT OR DELETE ON public.identities FOR EACH ROW EXECUTE FUNCTION public.audit_proof();

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.invitations FOR EACH ROW EXECUTE FUNCTION public.audit_change('invitation', 'id', 'email role settled_at');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.members FOR EACH ROW EXECUTE FUNCTION public.audit_change('member', 'person_id', 'role');

CREATE TRIGGER audited AFTER INSERT OR UPDATE OF labels ON public.namespaces FOR EACH ROW EXECUTE FUNCTION public.audit_change('namespace', 'name', 'name labels');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.organization_domains FOR EACH ROW EXECUTE FUNCTION public.audit_change('domain', 'domain', 'proven_at sso_required_at');

CREATE TRIGGER audited AFTER INSERT OR UPDATE ON public.organizations FOR EACH ROW EXECUTE FUNCTION public.audit_change('organization', 'id', 'name plan limits suspended_at suspended_reason deleted_at');

CREATE TRIGGER audited AFTER INSERT OR DELETE ON public.passkeys FOR EACH ROW EXECUTE FUNCTION public.audit_proof();

CREATE TRIGGER audited AFTER UPDATE OF password_hash ON public.people FOR EACH ROW WHEN ((old.password_hash IS DISTINCT FROM new.password_hash)) EXECUTE FUNCTION public.audit_password();

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.quotas FOR EACH ROW EXECUTE FUNCTION public.audit_change('quotas', 'namespace_id', 'limits');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.secrets FOR EACH ROW EXECUTE FUNCTION public.audit_change('secret', 'name', 'name namespace_id');

CREATE TRIGGER audited AFTER INSERT ON public.sessions FOR EACH ROW EXECUTE FUNCTION public.audit_sign_in();

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.sso_connections FOR EACH ROW EXECUTE FUNCTION public.audit_change('sso_connection', 'id', 'name issuer client_id join_role');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.tokens FOR EACH ROW EXECUTE FUNCTION public.audit_change('token', 'id', 'name prefix namespace_id scopes narrow expires_at revoked_at');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.toolsets FOR EACH ROW EXECUTE FUNCTION public.audit_change('toolset', 'name', 'name digest');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.webhook_endpoints FOR EACH ROW EXECUTE FUNCTION public.audit_change('webhook', 'id', 'url events namespaces labels disabled_at disabled_reason');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON public.workflows FOR EACH ROW EXECUTE FUNCTION public.audit_change('workflow', 'name', 'name digest');

CREATE TRIGGER audited_end AFTER DELETE ON public.sessions FOR EACH ROW WHEN ((old.expires_at > public.now_ms())) EXECUTE FUNCTION public.audit_sign_out();

CREATE TRIGGER audited_totp AFTER UPDATE OF totp_since ON public.people FOR EACH ROW WHEN ((old.totp_since IS DISTINCT FROM new.totp_since)) EXECUTE FUNCTION public.audit_proof();

CREATE TRIGGER blobs_counted AFTER INSERT OR DELETE ON public.blobs FOR EACH ROW EXECUTE FUNCTION public.count_value();

CREATE TRIGGER held BEFORE INSERT ON public.namespaces FOR EACH ROW EXECUTE FUNCTION public.hold_namespace();

CREATE TRIGGER pace_inserted BEFORE INSERT ON public.pending FOR EACH ROW WHEN ((new.pace IS NOT NULL)) EXECUTE FUNCTION public.pace_call();

CREATE TRIGGER pace_updated BEFORE UPDATE ON public.pending FOR EACH ROW WHEN ((new.queue_ms IS NOT NULL)) EXECUTE FUNCTION public.pace_call();

CREATE TRIGGER run_facts_deleted AFTER DELETE ON public.run_facts FOR EACH ROW EXECUTE FUNCTION public.count_deletion();

CREATE TRIGGER run_facts_ended AFTER UPDATE OF ended_at ON public.run_facts FOR EACH ROW WHEN (((old.ended_at IS NULL) AND (new.ended_at IS NOT NULL))) EXECUTE FUNCTION public.count_end();

CREATE TRIGGER runs_metered AFTER UPDATE OF cpu_us ON public.runs FOR EACH ROW WHEN (((new.cpu_us - new.metered_us) >= 1000000)) EXECUTE FUNCTION public.meter_run();

CREATE TRIGGER scripts_counted AFTER INSERT ON public.scripts FOR EACH ROW EXECUTE FUNCTION public.count_script();

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);

ALTER TABLE ONLY public.identities
    ADD CONSTRAINT identities_person_id_fkey FOREIGN KEY (person_id) REFERENCES public.people(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_person_id_fkey FOREIGN KEY (person_id) REFERENCES public.people(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.namespaces
    ADD CONSTRAINT namespaces_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);

ALTER TABLE ONLY public.organization_domains
    ADD CONSTRAINT organization_domains_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);

ALTER TABLE ONLY public.passkeys
    ADD CONSTRAINT passkeys_person_id_fkey FOREIGN KEY (person_id) REFERENCES public.people(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.recovery_codes
    ADD CONSTRAINT recovery_codes_person_id_fkey FOREIGN KEY (person_id) REFERENCES public.people(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.resets
    ADD CONSTRAINT resets_person_id_fkey FOREIGN KEY (person_id) REFERENCES public.people(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_person_id_fkey FOREIGN KEY (person_id) REFERENCES public.people(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sign_in_steps
    ADD CONSTRAINT sign_in_steps_person_id_fkey FOREIGN KEY (person_id) REFERENCES public.people(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.sso_connections
    ADD CONSTRAINT sso_connections_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);

ALTER TABLE public.api_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.approvals ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_log ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.blobs ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.bulk_cancels ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.checked_scripts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.child_outbox ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.compiled_scripts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.deliveries ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.entries ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.held_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.idempotency ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.identities ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.invitations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.login_failures ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.mails ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.members ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.namespace_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.namespaces ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.organization_domains ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.organizations ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.passkeys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.pending ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.people ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.quarantines ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.quota_notices ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.quotas ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.rate_marks ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.recovery_codes ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.replays ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.resets ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_facts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.sandbox_requests ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.scripts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.seal_heads ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.seals ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.secrets ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.sessions ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.sign_in_steps ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.signal_ids ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.signups ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.sso_connections ENABLE ROW LEVEL SECURITY;

CREATE POLICY system ON public.api_keys TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.approvals TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.audit_log TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.blobs TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.bulk_cancels TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.checked_scripts TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.child_outbox TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.compiled_scripts TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.deliveries TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.entries TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.events TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.held_events TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.idempotency TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.identities TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.invitations TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.login_failures TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.mails TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.members TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.namespace_keys TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.namespaces TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.organization_domains TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.organizations TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.passkeys TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.pending TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.people TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.quarantines TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.quota_notices TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.quotas TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.rate_marks TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.recovery_codes TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.replays TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.resets TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.run_facts TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.runs TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.sandbox_requests TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.scripts TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.seal_heads TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.seals TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.secrets TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.sessions TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.sign_in_steps TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.signal_ids TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.signups TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.sso_connections TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.tokens TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.toolset_servers TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.toolset_versions TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.toolsets TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.usage_counters TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.usage_days TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.usage_deltas TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.value_refs TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.webhook_endpoints TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.workflow_versions TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY system ON public.workflows TO rewind_api, rewind_worker, rewind_retention USING (true) WITH CHECK (true);

CREATE POLICY tenant ON public.api_keys TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined)))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))));

COMMENT ON POLICY tenant ON public.api_keys IS 'organization_id = (select rewind_organization()) and not (select rewind_confined()); given: organization_id = (select rewind_organization()) and not (select rewind_confined())';

CREATE POLICY tenant ON public.approvals TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid])))));

COMMENT ON POLICY tenant ON public.approvals IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';

CREATE POLICY tenant ON public.audit_log TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined)))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.audit_log IS 'organization_id = (select rewind_organization()) and not (select rewind_confined()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.blobs TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = blobs.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = blobs.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.blobs IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.bulk_cancels TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid])))));

COMMENT ON POLICY tenant ON public.bulk_cancels IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';

CREATE POLICY tenant ON public.checked_scripts TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = checked_scripts.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = checked_scripts.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.checked_scripts IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.child_outbox TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = child_outbox.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = child_outbox.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.child_outbox IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.compiled_scripts TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = compiled_scripts.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = compiled_scripts.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.compiled_scripts IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.deliveries TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid])))));

COMMENT ON POLICY tenant ON public.deliveries IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';

CREATE POLICY tenant ON public.entries TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = entries.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = entries.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.entries IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.events TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid])))));

COMMENT ON POLICY tenant ON public.events IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';

CREATE POLICY tenant ON public.held_events TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = held_events.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = held_events.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.held_events IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.idempotency TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid])))));

COMMENT ON POLICY tenant ON public.idempotency IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';

CREATE POLICY tenant ON public.identities TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.identities IS 'false; given: false';

CREATE POLICY tenant ON public.invitations TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined)))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))));

COMMENT ON POLICY tenant ON public.invitations IS 'organization_id = (select rewind_organization()) and not (select rewind_confined()); given: organization_id = (select rewind_organization()) and not (select rewind_confined())';

CREATE POLICY tenant ON public.login_failures TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.login_failures IS 'false; given: false';

CREATE POLICY tenant ON public.mails TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.mails IS 'false; given: false';

CREATE POLICY tenant ON public.members TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined)))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))));

COMMENT ON POLICY tenant ON public.members IS 'organization_id = (select rewind_organization()) and not (select rewind_confined()); given: organization_id = (select rewind_organization()) and not (select rewind_confined())';

CREATE POLICY tenant ON public.namespace_keys TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = namespace_keys.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = namespace_keys.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.namespace_keys IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.namespaces TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) OR (id = ( SELECT public.rewind_namespace() AS rewind_namespace))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) OR (id = ( SELECT public.rewind_namespace() AS rewind_namespace)))));

COMMENT ON POLICY tenant ON public.namespaces IS 'organization_id = (select rewind_organization()) and (not (select rewind_confined()) or id = (select rewind_namespace())); given: organization_id = (select rewind_organization()) and (not (select rewind_confined()) or id = (select rewind_namespace()))';

CREATE POLICY tenant ON public.organization_domains TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.organization_domains IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.organizations TO rewind_request USING ((id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.organizations IS 'id = (select rewind_organization()); given: id = (select rewind_organization())';

CREATE POLICY tenant ON public.passkeys TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.passkeys IS 'false; given: false';

CREATE POLICY tenant ON public.pending TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = pending.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = pending.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.pending IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.people TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.people IS 'false; given: false';

CREATE POLICY tenant ON public.quarantines TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = quarantines.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = quarantines.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.quarantines IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.quota_notices TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = quota_notices.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = quota_notices.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.quota_notices IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.quotas TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid])))));

COMMENT ON POLICY tenant ON public.quotas IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';

CREATE POLICY tenant ON public.rate_marks TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.rate_marks IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.recovery_codes TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.recovery_codes IS 'false; given: false';

CREATE POLICY tenant ON public.replays TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = replays.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = replays.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.replays IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.resets TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.resets IS 'false; given: false';

CREATE POLICY tenant ON public.run_facts TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid])))));

COMMENT ON POLICY tenant ON public.run_facts IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';

CREATE POLICY tenant ON public.runs TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = runs.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = runs.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.runs IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.sandbox_requests TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = sandbox_requests.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = sandbox_requests.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.sandbox_requests IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.scripts TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = scripts.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = scripts.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.scripts IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.seal_heads TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = seal_heads.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = seal_heads.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.seal_heads IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.seals TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = seals.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = seals.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.seals IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.secrets TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined)))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))));

COMMENT ON POLICY tenant ON public.secrets IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')) and not (select rewind_confined()); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')) and not (select rewind_confined())';

CREATE POLICY tenant ON public.sessions TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.sessions IS 'false; given: false';

CREATE POLICY tenant ON public.sign_in_steps TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.sign_in_steps IS 'false; given: false';

CREATE POLICY tenant ON public.signal_ids TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = signal_ids.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = signal_ids.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.signal_ids IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.signups TO rewind_request USING (false) WITH CHECK (false);

COMMENT ON POLICY tenant ON public.signups IS 'false; given: false';

CREATE POLICY tenant ON public.sso_connections TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.sso_connections IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.tokens TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined)))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (((( SELECT public.rewind_namespace() AS rewind_namespace) IS NULL) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))) OR (namespace_id = ANY (ARRAY[( SELECT public.rewind_namespace() AS rewind_namespace), '00000000-0000-0000-0000-000000000000'::uuid]))) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))));

COMMENT ON POLICY tenant ON public.tokens IS 'organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')) and not (select rewind_confined()); given: organization_id = (select rewind_organization()) and ((select rewind_namespace()) is null and not (select rewind_confined()) or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000'')) and not (select rewind_confined())';

CREATE POLICY tenant ON public.toolset_servers TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.toolset_servers IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.toolset_versions TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.toolset_versions IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.toolsets TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.toolsets IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.usage_counters TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = usage_counters.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = usage_counters.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.usage_counters IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.usage_days TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = usage_days.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = usage_days.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.usage_days IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.usage_deltas TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = usage_deltas.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = usage_deltas.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.usage_deltas IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.value_refs TO rewind_request USING (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = value_refs.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END) WITH CHECK (
CASE
    WHEN (( SELECT public.rewind_namespace() AS rewind_namespace) IS NOT NULL) THEN (namespace_id = ( SELECT public.rewind_namespace() AS rewind_namespace))
    ELSE ((NOT ( SELECT public.rewind_confined() AS rewind_confined)) AND (EXISTS ( SELECT
       FROM public.namespaces n
      WHERE ((n.id = value_refs.namespace_id) AND (n.organization_id = ( SELECT public.rewind_organization() AS rewind_organization))))))
END);

COMMENT ON POLICY tenant ON public.value_refs IS 'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end; given: case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id and n.organization_id = (select rewind_organization())) end';

CREATE POLICY tenant ON public.webhook_endpoints TO rewind_request USING (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined)))) WITH CHECK (((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)) AND (NOT ( SELECT public.rewind_confined() AS rewind_confined))));

COMMENT ON POLICY tenant ON public.webhook_endpoints IS 'organization_id = (select rewind_organization()) and not (select rewind_confined()); given: organization_id = (select rewind_organization()) and not (select rewind_confined())';

CREATE POLICY tenant ON public.workflow_versions TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.workflow_versions IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

CREATE POLICY tenant ON public.workflows TO rewind_request USING ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization))) WITH CHECK ((organization_id = ( SELECT public.rewind_organization() AS rewind_organization)));

COMMENT ON POLICY tenant ON public.workflows IS 'organization_id = (select rewind_organization()); given: organization_id = (select rewind_organization())';

ALTER TABLE public.tokens ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.toolset_servers ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.toolset_versions ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.toolsets ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.usage_counters ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.usage_days ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.usage_deltas ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.value_refs ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook_endpoints ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.workflow_versions ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.workflows ENABLE ROW LEVEL SECURITY;

GRANT CREATE ON SCHEMA public TO rewind_owner;

REVOKE ALL ON FUNCTION public.abandon_quarantined(p_ns uuid, p_run uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.abandon_quarantined(p_ns uuid, p_run uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.abandon_quarantined(p_ns uuid, p_run uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.abandon_quarantined(p_ns uuid, p_run uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.abandon_quarantined(p_ns uuid, p_run uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.admit_run(p_ns uuid, p_organization uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.admit_run(p_ns uuid, p_organization uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.admit_run(p_ns uuid, p_organization uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.admit_run(p_ns uuid, p_organization uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.admit_run(p_ns uuid, p_organization uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch integer[], p_before integer[], p_delivered integer[], p_cpu bigint[], p_activations integer[], p_organization uuid[], p_toolset text[], p_progress bytea[], p_waits text[], p_calls integer[], p_count integer[], c_type smallint[], c_cause integer[], c_time bigint[], c_body bytea[], c_n integer[], c_name text[], c_line integer[], c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[], OUT appended boolean[], OUT firsts integer[], OUT nexts integer[], OUT at bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch integer[], p_before integer[], p_delivered integer[], p_cpu bigint[], p_activations integer[], p_organization uuid[], p_toolset text[], p_progress bytea[], p_waits text[], p_calls integer[], p_count integer[], c_type smallint[], c_cause integer[], c_time bigint[], c_body bytea[], c_n integer[], c_name text[], c_line integer[], c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[], OUT appended boolean[], OUT firsts integer[], OUT nexts integer[], OUT at bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch integer[], p_before integer[], p_delivered integer[], p_cpu bigint[], p_activations integer[], p_organization uuid[], p_toolset text[], p_progress bytea[], p_waits text[], p_calls integer[], p_count integer[], c_type smallint[], c_cause integer[], c_time bigint[], c_body bytea[], c_n integer[], c_name text[], c_line integer[], c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[], OUT appended boolean[], OUT firsts integer[], OUT nexts integer[], OUT at bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch integer[], p_before integer[], p_delivered integer[], p_cpu bigint[], p_activations integer[], p_organization uuid[], p_toolset text[], p_progress bytea[], p_waits text[], p_calls integer[], p_count integer[], c_type smallint[], c_cause integer[], c_time bigint[], c_body bytea[], c_n integer[], c_name text[], c_line integer[], c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[], OUT appended boolean[], OUT firsts integer[], OUT nexts integer[], OUT at bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.append_commands(p_worker bigint, p_ns uuid[], p_run uuid[], p_owner_epoch integer[], p_before integer[], p_delivered integer[], p_cpu bigint[], p_activations integer[], p_organization uuid[], p_toolset text[], p_progress bytea[], p_waits text[], p_calls integer[], p_count integer[], c_type smallint[], c_cause integer[], c_time bigint[], c_body bytea[], c_n integer[], c_name text[], c_line integer[], c_due bigint[], c_delay bigint[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_claim uuid[], c_withdrawn bytea[], c_expires bigint[], c_pace text[], OUT appended boolean[], OUT firsts integer[], OUT nexts integer[], OUT at bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_attempt smallint, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_attempt smallint, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_attempt smallint, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_attempt smallint, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.append_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_attempt smallint, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.append_events(p_ns uuid[], p_run uuid[], p_guard smallint[], p_n integer[], p_attempt smallint[], p_signal text[], p_type smallint[], p_body bytea[], p_not_before bigint[], OUT outcomes text[], OUT seqs integer[], OUT times bigint[], OUT owners bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.append_events(p_ns uuid[], p_run uuid[], p_guard smallint[], p_n integer[], p_attempt smallint[], p_signal text[], p_type smallint[], p_body bytea[], p_not_before bigint[], OUT outcomes text[], OUT seqs integer[], OUT times bigint[], OUT owners bigint[]) TO rewind_api;
GRANT ALL ON FUNCTION public.append_events(p_ns uuid[], p_run uuid[], p_guard smallint[], p_n integer[], p_attempt smallint[], p_signal text[], p_type smallint[], p_body bytea[], p_not_before bigint[], OUT outcomes text[], OUT seqs integer[], OUT times bigint[], OUT owners bigint[]) TO rewind_request;
GRANT ALL ON FUNCTION public.append_events(p_ns uuid[], p_run uuid[], p_guard smallint[], p_n integer[], p_attempt smallint[], p_signal text[], p_type smallint[], p_body bytea[], p_not_before bigint[], OUT outcomes text[], OUT seqs integer[], OUT times bigint[], OUT owners bigint[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.append_events(p_ns uuid[], p_run uuid[], p_guard smallint[], p_n integer[], p_attempt smallint[], p_signal text[], p_type smallint[], p_body bytea[], p_not_before bigint[], OUT outcomes text[], OUT seqs integer[], OUT times bigint[], OUT owners bigint[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.append_fork(p_worker bigint, p_ns uuid, p_run uuid, p_owner_epoch integer, p_first integer, e_type smallint[], e_time bigint[], e_cause integer[], e_fire_at bigint[], e_delay bigint[], e_n integer[], e_body bytea[], OUT appended boolean, OUT next integer, OUT at bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.append_fork(p_worker bigint, p_ns uuid, p_run uuid, p_owner_epoch integer, p_first integer, e_type smallint[], e_time bigint[], e_cause integer[], e_fire_at bigint[], e_delay bigint[], e_n integer[], e_body bytea[], OUT appended boolean, OUT next integer, OUT at bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.append_fork(p_worker bigint, p_ns uuid, p_run uuid, p_owner_epoch integer, p_first integer, e_type smallint[], e_time bigint[], e_cause integer[], e_fire_at bigint[], e_delay bigint[], e_n integer[], e_body bytea[], OUT appended boolean, OUT next integer, OUT at bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.append_fork(p_worker bigint, p_ns uuid, p_run uuid, p_owner_epoch integer, p_first integer, e_type smallint[], e_time bigint[], e_cause integer[], e_fire_at bigint[], e_delay bigint[], e_n integer[], e_body bytea[], OUT appended boolean, OUT next integer, OUT at bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.append_fork(p_worker bigint, p_ns uuid, p_run uuid, p_owner_epoch integer, p_first integer, e_type smallint[], e_time bigint[], e_cause integer[], e_fire_at bigint[], e_delay bigint[], e_n integer[], e_body bytea[], OUT appended boolean, OUT next integer, OUT at bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_approval() FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_approval() TO rewind_api;
GRANT ALL ON FUNCTION public.audit_approval() TO rewind_request;
GRANT ALL ON FUNCTION public.audit_approval() TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_approval() TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_change() FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_change() TO rewind_api;
GRANT ALL ON FUNCTION public.audit_change() TO rewind_request;
GRANT ALL ON FUNCTION public.audit_change() TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_change() TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_id(p_at bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_id(p_at bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.audit_id(p_at bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.audit_id(p_at bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_id(p_at bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_password() FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_password() TO rewind_api;
GRANT ALL ON FUNCTION public.audit_password() TO rewind_request;
GRANT ALL ON FUNCTION public.audit_password() TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_password() TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_person(p_person uuid, p_action text, p_ip text, p_after jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_person(p_person uuid, p_action text, p_ip text, p_after jsonb) TO rewind_api;
GRANT ALL ON FUNCTION public.audit_person(p_person uuid, p_action text, p_ip text, p_after jsonb) TO rewind_request;
GRANT ALL ON FUNCTION public.audit_person(p_person uuid, p_action text, p_ip text, p_after jsonb) TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_person(p_person uuid, p_action text, p_ip text, p_after jsonb) TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_proof() FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_proof() TO rewind_api;
GRANT ALL ON FUNCTION public.audit_proof() TO rewind_request;
GRANT ALL ON FUNCTION public.audit_proof() TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_proof() TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_sign_in() FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_sign_in() TO rewind_api;
GRANT ALL ON FUNCTION public.audit_sign_in() TO rewind_request;
GRANT ALL ON FUNCTION public.audit_sign_in() TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_sign_in() TO rewind_retention;

REVOKE ALL ON FUNCTION public.audit_sign_out() FROM PUBLIC;
GRANT ALL ON FUNCTION public.audit_sign_out() TO rewind_api;
GRANT ALL ON FUNCTION public.audit_sign_out() TO rewind_request;
GRANT ALL ON FUNCTION public.audit_sign_out() TO rewind_worker;
GRANT ALL ON FUNCTION public.audit_sign_out() TO rewind_retention;

REVOKE ALL ON FUNCTION public.begin_calls(p_claim uuid, p_lease_ms bigint, p_ns uuid[], p_run uuid[], p_n integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.begin_calls(p_claim uuid, p_lease_ms bigint, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_api;
GRANT ALL ON FUNCTION public.begin_calls(p_claim uuid, p_lease_ms bigint, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_request;
GRANT ALL ON FUNCTION public.begin_calls(p_claim uuid, p_lease_ms bigint, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.begin_calls(p_claim uuid, p_lease_ms bigint, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.begin_runs(p_ns uuid[], p_run uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.begin_runs(p_ns uuid[], p_run uuid[]) TO rewind_api;
GRANT ALL ON FUNCTION public.begin_runs(p_ns uuid[], p_run uuid[]) TO rewind_request;
GRANT ALL ON FUNCTION public.begin_runs(p_ns uuid[], p_run uuid[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.begin_runs(p_ns uuid[], p_run uuid[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.calls_in_flight_max() FROM PUBLIC;
GRANT ALL ON FUNCTION public.calls_in_flight_max() TO rewind_api;
GRANT ALL ON FUNCTION public.calls_in_flight_max() TO rewind_request;
GRANT ALL ON FUNCTION public.calls_in_flight_max() TO rewind_worker;
GRANT ALL ON FUNCTION public.calls_in_flight_max() TO rewind_retention;

REVOKE ALL ON FUNCTION public.claim_calls(p_claim uuid, p_limit integer, p_server_max integer, p_lease_ms bigint, p_full uuid[], p_org uuid[], p_toolset text[], p_server text[], p_free integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.claim_calls(p_claim uuid, p_limit integer, p_server_max integer, p_lease_ms bigint, p_full uuid[], p_org uuid[], p_toolset text[], p_server text[], p_free integer[]) TO rewind_api;
GRANT ALL ON FUNCTION public.claim_calls(p_claim uuid, p_limit integer, p_server_max integer, p_lease_ms bigint, p_full uuid[], p_org uuid[], p_toolset text[], p_server text[], p_free integer[]) TO rewind_request;
GRANT ALL ON FUNCTION public.claim_calls(p_claim uuid, p_limit integer, p_server_max integer, p_lease_ms bigint, p_full uuid[], p_org uuid[], p_toolset text[], p_server text[], p_free integer[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.claim_calls(p_claim uuid, p_limit integer, p_server_max integer, p_lease_ms bigint, p_full uuid[], p_org uuid[], p_toolset text[], p_server text[], p_free integer[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.claim_child(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_child uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.claim_child(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.claim_child(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.claim_child(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.claim_child(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_lease_ms bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_lease_ms bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_lease_ms bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_lease_ms bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_share integer, p_lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_share integer, p_lease_ms bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_share integer, p_lease_ms bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_share integer, p_lease_ms bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.claim_deliveries(p_limit integer, p_per_endpoint integer, p_share integer, p_lease_ms bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.claim_runs(p_worker bigint, p_epochs smallint[], p_limit integer, p_busy_ns uuid[], p_busy integer[], p_share integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.claim_runs(p_worker bigint, p_epochs smallint[], p_limit integer, p_busy_ns uuid[], p_busy integer[], p_share integer) TO rewind_api;
GRANT ALL ON FUNCTION public.claim_runs(p_worker bigint, p_epochs smallint[], p_limit integer, p_busy_ns uuid[], p_busy integer[], p_share integer) TO rewind_request;
GRANT ALL ON FUNCTION public.claim_runs(p_worker bigint, p_epochs smallint[], p_limit integer, p_busy_ns uuid[], p_busy integer[], p_share integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.claim_runs(p_worker bigint, p_epochs smallint[], p_limit integer, p_busy_ns uuid[], p_busy integer[], p_share integer) TO rewind_retention;

REVOKE ALL ON FUNCTION public.claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid, p_limit integer, p_lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid, p_limit integer, p_lease_ms bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid, p_limit integer, p_lease_ms bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid, p_limit integer, p_lease_ms bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid, p_limit integer, p_lease_ms bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.count_deletion() FROM PUBLIC;
GRANT ALL ON FUNCTION public.count_deletion() TO rewind_api;
GRANT ALL ON FUNCTION public.count_deletion() TO rewind_request;
GRANT ALL ON FUNCTION public.count_deletion() TO rewind_worker;
GRANT ALL ON FUNCTION public.count_deletion() TO rewind_retention;

REVOKE ALL ON FUNCTION public.count_end() FROM PUBLIC;
GRANT ALL ON FUNCTION public.count_end() TO rewind_api;
GRANT ALL ON FUNCTION public.count_end() TO rewind_request;
GRANT ALL ON FUNCTION public.count_end() TO rewind_worker;
GRANT ALL ON FUNCTION public.count_end() TO rewind_retention;

REVOKE ALL ON FUNCTION public.count_script() FROM PUBLIC;
GRANT ALL ON FUNCTION public.count_script() TO rewind_api;
GRANT ALL ON FUNCTION public.count_script() TO rewind_request;
GRANT ALL ON FUNCTION public.count_script() TO rewind_worker;
GRANT ALL ON FUNCTION public.count_script() TO rewind_retention;

REVOKE ALL ON FUNCTION public.count_value() FROM PUBLIC;
GRANT ALL ON FUNCTION public.count_value() TO rewind_api;
GRANT ALL ON FUNCTION public.count_value() TO rewind_request;
GRANT ALL ON FUNCTION public.count_value() TO rewind_worker;
GRANT ALL ON FUNCTION public.count_value() TO rewind_retention;

REVOKE ALL ON FUNCTION public.decide_approval(p_ns uuid, p_run uuid, p_call integer, p_decision smallint, p_body bytea, p_completion bytea, OUT verdict public.event_verdict, OUT route smallint, OUT organization uuid, OUT toolset text, OUT tool text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.decide_approval(p_ns uuid, p_run uuid, p_call integer, p_decision smallint, p_body bytea, p_completion bytea, OUT verdict public.event_verdict, OUT route smallint, OUT organization uuid, OUT toolset text, OUT tool text) TO rewind_api;
GRANT ALL ON FUNCTION public.decide_approval(p_ns uuid, p_run uuid, p_call integer, p_decision smallint, p_body bytea, p_completion bytea, OUT verdict public.event_verdict, OUT route smallint, OUT organization uuid, OUT toolset text, OUT tool text) TO rewind_request;
GRANT ALL ON FUNCTION public.decide_approval(p_ns uuid, p_run uuid, p_call integer, p_decision smallint, p_body bytea, p_completion bytea, OUT verdict public.event_verdict, OUT route smallint, OUT organization uuid, OUT toolset text, OUT tool text) TO rewind_worker;
GRANT ALL ON FUNCTION public.decide_approval(p_ns uuid, p_run uuid, p_call integer, p_decision smallint, p_body bytea, p_completion bytea, OUT verdict public.event_verdict, OUT route smallint, OUT organization uuid, OUT toolset text, OUT tool text) TO rewind_retention;

REVOKE ALL ON FUNCTION public.defer_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_expires bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.defer_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_expires bigint[]) TO rewind_api;
GRANT ALL ON FUNCTION public.defer_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_expires bigint[]) TO rewind_request;
GRANT ALL ON FUNCTION public.defer_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_expires bigint[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.defer_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_expires bigint[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.delete_namespace(p_organization uuid, p_ns uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.delete_namespace(p_organization uuid, p_ns uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.delete_namespace(p_organization uuid, p_ns uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.delete_namespace(p_organization uuid, p_ns uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.delete_namespace(p_organization uuid, p_ns uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.delete_runs(p_ns uuid, p_runs uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.delete_runs(p_ns uuid, p_runs uuid[]) TO rewind_api;
GRANT ALL ON FUNCTION public.delete_runs(p_ns uuid, p_runs uuid[]) TO rewind_request;
GRANT ALL ON FUNCTION public.delete_runs(p_ns uuid, p_runs uuid[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.delete_runs(p_ns uuid, p_runs uuid[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.drop_runs(p_ns uuid, p_runs uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.drop_runs(p_ns uuid, p_runs uuid[]) TO rewind_api;
GRANT ALL ON FUNCTION public.drop_runs(p_ns uuid, p_runs uuid[]) TO rewind_request;
GRANT ALL ON FUNCTION public.drop_runs(p_ns uuid, p_runs uuid[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.drop_runs(p_ns uuid, p_runs uuid[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence integer, p_call integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence integer, p_call integer) TO rewind_api;
GRANT ALL ON FUNCTION public.emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence integer, p_call integer) TO rewind_request;
GRANT ALL ON FUNCTION public.emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence integer, p_call integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.emit_event(p_ns uuid, p_organization uuid, p_type text, p_run uuid, p_sequence integer, p_call integer) TO rewind_retention;

REVOKE ALL ON FUNCTION public.end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq integer, p_at bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq integer, p_at bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq integer, p_at bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq integer, p_at bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq integer, p_at bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.erase_namespace(p_ns uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_namespace(p_ns uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.erase_namespace(p_ns uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.erase_namespace(p_ns uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.erase_namespace(p_ns uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.erase_some(p_ns uuid, p_runs integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.erase_some(p_ns uuid, p_runs integer) TO rewind_api;
GRANT ALL ON FUNCTION public.erase_some(p_ns uuid, p_runs integer) TO rewind_request;
GRANT ALL ON FUNCTION public.erase_some(p_ns uuid, p_runs integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.erase_some(p_ns uuid, p_runs integer) TO rewind_retention;

REVOKE ALL ON FUNCTION public.expire_leases(p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.expire_leases(p_limit integer) TO rewind_api;
GRANT ALL ON FUNCTION public.expire_leases(p_limit integer) TO rewind_request;
GRANT ALL ON FUNCTION public.expire_leases(p_limit integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.expire_leases(p_limit integer) TO rewind_retention;

REVOKE ALL ON FUNCTION public.expired_runs(p_after uuid, p_limit integer, p_default_days integer, p_runs integer, p_entries bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.expired_runs(p_after uuid, p_limit integer, p_default_days integer, p_runs integer, p_entries bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.expired_runs(p_after uuid, p_limit integer, p_default_days integer, p_runs integer, p_entries bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.expired_runs(p_after uuid, p_limit integer, p_default_days integer, p_runs integer, p_entries bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.expired_runs(p_after uuid, p_limit integer, p_default_days integer, p_runs integer, p_entries bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered integer, p_last_event integer, p_commands integer, p_calls integer, p_cpu bigint, p_activations integer, p_cancel_seq integer, p_ending smallint, p_progress bytea, p_organization uuid, p_toolset text, s_id text[], s_seq integer[], c_kind smallint[], c_n integer[], c_seq integer[], c_line integer[], c_name text[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_expires bigint[], c_pace text[], OUT next integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered integer, p_last_event integer, p_commands integer, p_calls integer, p_cpu bigint, p_activations integer, p_cancel_seq integer, p_ending smallint, p_progress bytea, p_organization uuid, p_toolset text, s_id text[], s_seq integer[], c_kind smallint[], c_n integer[], c_seq integer[], c_line integer[], c_name text[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_expires bigint[], c_pace text[], OUT next integer) TO rewind_api;
GRANT ALL ON FUNCTION public.finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered integer, p_last_event integer, p_commands integer, p_calls integer, p_cpu bigint, p_activations integer, p_cancel_seq integer, p_ending smallint, p_progress bytea, p_organization uuid, p_toolset text, s_id text[], s_seq integer[], c_kind smallint[], c_n integer[], c_seq integer[], c_line integer[], c_name text[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_expires bigint[], c_pace text[], OUT next integer) TO rewind_request;
GRANT ALL ON FUNCTION public.finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered integer, p_last_event integer, p_commands integer, p_calls integer, p_cpu bigint, p_activations integer, p_cancel_seq integer, p_ending smallint, p_progress bytea, p_organization uuid, p_toolset text, s_id text[], s_seq integer[], c_kind smallint[], c_n integer[], c_seq integer[], c_line integer[], c_name text[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_expires bigint[], c_pace text[], OUT next integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.finish_fork(p_ns uuid, p_run uuid, p_report bytea, p_delivered integer, p_last_event integer, p_commands integer, p_calls integer, p_cpu bigint, p_activations integer, p_cancel_seq integer, p_ending smallint, p_progress bytea, p_organization uuid, p_toolset text, s_id text[], s_seq integer[], c_kind smallint[], c_n integer[], c_seq integer[], c_line integer[], c_name text[], c_route smallint[], c_idempotent boolean[], c_gated boolean[], c_timeout bigint[], c_expires bigint[], c_pace text[], OUT next integer) TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.usage_counters TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.usage_counters TO rewind_request;

REVOKE ALL ON FUNCTION public.fold_usage(p_ns uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.fold_usage(p_ns uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.fold_usage(p_ns uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.fold_usage(p_ns uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.fold_usage(p_ns uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.forks_being_made(p_ns uuid, p_run uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.forks_being_made(p_ns uuid, p_run uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.forks_being_made(p_ns uuid, p_run uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.forks_being_made(p_ns uuid, p_run uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.forks_being_made(p_ns uuid, p_run uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_lease_ms bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_lease_ms bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_lease_ms bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_lease_ms bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.hold_call(p_ns uuid, p_run uuid, p_n integer, p_child uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.hold_call(p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.hold_call(p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.hold_call(p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.hold_call(p_ns uuid, p_run uuid, p_n integer, p_child uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.hold_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.hold_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.hold_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.hold_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.hold_event(p_ns uuid, p_run uuid, p_guard smallint, p_n integer, p_signal text, p_type smallint, p_body bytea, p_not_before bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.hold_namespace() FROM PUBLIC;
GRANT ALL ON FUNCTION public.hold_namespace() TO rewind_api;
GRANT ALL ON FUNCTION public.hold_namespace() TO rewind_request;
GRANT ALL ON FUNCTION public.hold_namespace() TO rewind_worker;
GRANT ALL ON FUNCTION public.hold_namespace() TO rewind_retention;

REVOKE ALL ON FUNCTION public.leave_fork(p_ns uuid, p_run uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.leave_fork(p_ns uuid, p_run uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.leave_fork(p_ns uuid, p_run uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.leave_fork(p_ns uuid, p_run uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.leave_fork(p_ns uuid, p_run uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.meter_run() FROM PUBLIC;
GRANT ALL ON FUNCTION public.meter_run() TO rewind_api;
GRANT ALL ON FUNCTION public.meter_run() TO rewind_request;
GRANT ALL ON FUNCTION public.meter_run() TO rewind_worker;
GRANT ALL ON FUNCTION public.meter_run() TO rewind_retention;

REVOKE ALL ON FUNCTION public.note_quota(p_ns uuid, p_refusal jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION public.note_quota(p_ns uuid, p_refusal jsonb) TO rewind_api;
GRANT ALL ON FUNCTION public.note_quota(p_ns uuid, p_refusal jsonb) TO rewind_request;
GRANT ALL ON FUNCTION public.note_quota(p_ns uuid, p_refusal jsonb) TO rewind_worker;
GRANT ALL ON FUNCTION public.note_quota(p_ns uuid, p_refusal jsonb) TO rewind_retention;

REVOKE ALL ON FUNCTION public.now_ms() FROM PUBLIC;
GRANT ALL ON FUNCTION public.now_ms() TO rewind_api;
GRANT ALL ON FUNCTION public.now_ms() TO rewind_request;
GRANT ALL ON FUNCTION public.now_ms() TO rewind_worker;
GRANT ALL ON FUNCTION public.now_ms() TO rewind_retention;

REVOKE ALL ON FUNCTION public.offer_next_call(p_ns uuid, p_run uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.offer_next_call(p_ns uuid, p_run uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.offer_next_call(p_ns uuid, p_run uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.offer_next_call(p_ns uuid, p_run uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.offer_next_call(p_ns uuid, p_run uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.pace_call() FROM PUBLIC;
GRANT ALL ON FUNCTION public.pace_call() TO rewind_api;
GRANT ALL ON FUNCTION public.pace_call() TO rewind_request;
GRANT ALL ON FUNCTION public.pace_call() TO rewind_worker;
GRANT ALL ON FUNCTION public.pace_call() TO rewind_retention;

REVOKE ALL ON FUNCTION public.pick_paced(p_route smallint, p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_limit integer, p_full uuid[], p_org uuid[], p_toolsets text[], p_server text[], p_free integer[], p_server_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pick_paced(p_route smallint, p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_limit integer, p_full uuid[], p_org uuid[], p_toolsets text[], p_server text[], p_free integer[], p_server_max integer) TO rewind_api;
GRANT ALL ON FUNCTION public.pick_paced(p_route smallint, p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_limit integer, p_full uuid[], p_org uuid[], p_toolsets text[], p_server text[], p_free integer[], p_server_max integer) TO rewind_request;
GRANT ALL ON FUNCTION public.pick_paced(p_route smallint, p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_limit integer, p_full uuid[], p_org uuid[], p_toolsets text[], p_server text[], p_free integer[], p_server_max integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.pick_paced(p_route smallint, p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_limit integer, p_full uuid[], p_org uuid[], p_toolsets text[], p_server text[], p_free integer[], p_server_max integer) TO rewind_retention;

REVOKE ALL ON FUNCTION public.quarantine_by_operator(p_ns uuid, p_run uuid, p_report bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION public.quarantine_by_operator(p_ns uuid, p_run uuid, p_report bytea) TO rewind_api;
GRANT ALL ON FUNCTION public.quarantine_by_operator(p_ns uuid, p_run uuid, p_report bytea) TO rewind_request;
GRANT ALL ON FUNCTION public.quarantine_by_operator(p_ns uuid, p_run uuid, p_report bytea) TO rewind_worker;
GRANT ALL ON FUNCTION public.quarantine_by_operator(p_ns uuid, p_run uuid, p_report bytea) TO rewind_retention;

REVOKE ALL ON FUNCTION public.quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea, p_owner_epoch integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea, p_owner_epoch integer) TO rewind_api;
GRANT ALL ON FUNCTION public.quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea, p_owner_epoch integer) TO rewind_request;
GRANT ALL ON FUNCTION public.quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea, p_owner_epoch integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea, p_owner_epoch integer) TO rewind_retention;

REVOKE ALL ON FUNCTION public.quota_limits(p_ns uuid, p_organization uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.quota_limits(p_ns uuid, p_organization uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.quota_limits(p_ns uuid, p_organization uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.quota_limits(p_ns uuid, p_organization uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.quota_limits(p_ns uuid, p_organization uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION public.quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) TO rewind_api;
GRANT ALL ON FUNCTION public.quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) TO rewind_request;
GRANT ALL ON FUNCTION public.quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) TO rewind_worker;
GRANT ALL ON FUNCTION public.quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) TO rewind_retention;

REVOKE ALL ON FUNCTION public.reap_workers(p_stale bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.reap_workers(p_stale bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.reap_workers(p_stale bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.reap_workers(p_stale bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.reap_workers(p_stale bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb, p_person uuid, p_ip text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb, p_person uuid, p_ip text) TO rewind_api;
GRANT ALL ON FUNCTION public.record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb, p_person uuid, p_ip text) TO rewind_request;
GRANT ALL ON FUNCTION public.record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb, p_person uuid, p_ip text) TO rewind_worker;
GRANT ALL ON FUNCTION public.record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb, p_person uuid, p_ip text) TO rewind_retention;

REVOKE ALL ON FUNCTION public.record_held(p_ns uuid, p_run uuid, p_known text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.record_held(p_ns uuid, p_run uuid, p_known text[]) TO rewind_api;
GRANT ALL ON FUNCTION public.record_held(p_ns uuid, p_run uuid, p_known text[]) TO rewind_request;
GRANT ALL ON FUNCTION public.record_held(p_ns uuid, p_run uuid, p_known text[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.record_held(p_ns uuid, p_run uuid, p_known text[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.release_calls(p_claim uuid, p_ns uuid[], p_run uuid[], p_n integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.release_calls(p_claim uuid, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_api;
GRANT ALL ON FUNCTION public.release_calls(p_claim uuid, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_request;
GRANT ALL ON FUNCTION public.release_calls(p_claim uuid, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.release_calls(p_claim uuid, p_ns uuid[], p_run uuid[], p_n integer[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.release_quarantined(p_ns uuid, p_run uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.release_quarantined(p_ns uuid, p_run uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.release_quarantined(p_ns uuid, p_run uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.release_quarantined(p_ns uuid, p_run uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.release_quarantined(p_ns uuid, p_run uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.release_runs(p_worker bigint, p_ns uuid[], p_run uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.release_runs(p_worker bigint, p_ns uuid[], p_run uuid[]) TO rewind_api;
GRANT ALL ON FUNCTION public.release_runs(p_worker bigint, p_ns uuid[], p_run uuid[]) TO rewind_request;
GRANT ALL ON FUNCTION public.release_runs(p_worker bigint, p_ns uuid[], p_run uuid[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.release_runs(p_worker bigint, p_ns uuid[], p_run uuid[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.release_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_after bigint[], p_lease bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.release_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_after bigint[], p_lease bigint[]) TO rewind_api;
GRANT ALL ON FUNCTION public.release_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_after bigint[], p_lease bigint[]) TO rewind_request;
GRANT ALL ON FUNCTION public.release_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_after bigint[], p_lease bigint[]) TO rewind_worker;
GRANT ALL ON FUNCTION public.release_tasks(p_ns uuid[], p_run uuid[], p_n integer[], p_attempt smallint[], p_releases integer[], p_after bigint[], p_lease bigint[]) TO rewind_retention;

REVOKE ALL ON FUNCTION public.renew_calls(p_claim uuid, p_lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.renew_calls(p_claim uuid, p_lease_ms bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.renew_calls(p_claim uuid, p_lease_ms bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.renew_calls(p_claim uuid, p_lease_ms bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.renew_calls(p_claim uuid, p_lease_ms bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call integer, p_seq integer, p_tool text, p_at bigint, p_expires bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call integer, p_seq integer, p_tool text, p_at bigint, p_expires bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call integer, p_seq integer, p_tool text, p_at bigint, p_expires bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call integer, p_seq integer, p_tool text, p_at bigint, p_expires bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call integer, p_seq integer, p_tool text, p_at bigint, p_expires bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.resume_organization(p_org uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.resume_organization(p_org uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.resume_organization(p_org uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.resume_organization(p_org uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.resume_organization(p_org uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.retry_call(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_attempt smallint, p_after bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.retry_call(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_attempt smallint, p_after bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.retry_call(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_attempt smallint, p_after bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.retry_call(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_attempt smallint, p_after bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.retry_call(p_claim uuid, p_ns uuid, p_run uuid, p_n integer, p_attempt smallint, p_after bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.rewind_confined() FROM PUBLIC;
GRANT ALL ON FUNCTION public.rewind_confined() TO rewind_api;
GRANT ALL ON FUNCTION public.rewind_confined() TO rewind_request;
GRANT ALL ON FUNCTION public.rewind_confined() TO rewind_worker;
GRANT ALL ON FUNCTION public.rewind_confined() TO rewind_retention;

REVOKE ALL ON FUNCTION public.rewind_namespace() FROM PUBLIC;
GRANT ALL ON FUNCTION public.rewind_namespace() TO rewind_api;
GRANT ALL ON FUNCTION public.rewind_namespace() TO rewind_request;
GRANT ALL ON FUNCTION public.rewind_namespace() TO rewind_worker;
GRANT ALL ON FUNCTION public.rewind_namespace() TO rewind_retention;

REVOKE ALL ON FUNCTION public.rewind_organization() FROM PUBLIC;
GRANT ALL ON FUNCTION public.rewind_organization() TO rewind_api;
GRANT ALL ON FUNCTION public.rewind_organization() TO rewind_request;
GRANT ALL ON FUNCTION public.rewind_organization() TO rewind_worker;
GRANT ALL ON FUNCTION public.rewind_organization() TO rewind_retention;

REVOKE ALL ON FUNCTION public.run_query(p_ns uuid, p_exact text[], p_q text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.run_query(p_ns uuid, p_exact text[], p_q text) TO rewind_api;
GRANT ALL ON FUNCTION public.run_query(p_ns uuid, p_exact text[], p_q text) TO rewind_request;
GRANT ALL ON FUNCTION public.run_query(p_ns uuid, p_exact text[], p_q text) TO rewind_worker;
GRANT ALL ON FUNCTION public.run_query(p_ns uuid, p_exact text[], p_q text) TO rewind_retention;

REVOKE ALL ON FUNCTION public.run_terms(p_ns uuid, p_labels jsonb, p_script text, p_toolset text, p_toolset_digest text, p_workflow text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.run_terms(p_ns uuid, p_labels jsonb, p_script text, p_toolset text, p_toolset_digest text, p_workflow text) TO rewind_api;
GRANT ALL ON FUNCTION public.run_terms(p_ns uuid, p_labels jsonb, p_script text, p_toolset text, p_toolset_digest text, p_workflow text) TO rewind_request;
GRANT ALL ON FUNCTION public.run_terms(p_ns uuid, p_labels jsonb, p_script text, p_toolset text, p_toolset_digest text, p_workflow text) TO rewind_worker;
GRANT ALL ON FUNCTION public.run_terms(p_ns uuid, p_labels jsonb, p_script text, p_toolset text, p_toolset_digest text, p_workflow text) TO rewind_retention;

GRANT SELECT,INSERT ON TABLE public.seals TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.seals TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.seals TO rewind_retention;

REVOKE ALL ON FUNCTION public.seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries integer) TO rewind_api;
GRANT ALL ON FUNCTION public.seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries integer) TO rewind_request;
GRANT ALL ON FUNCTION public.seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries integer) TO rewind_worker;
GRANT ALL ON FUNCTION public.seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries integer) TO rewind_retention;

REVOKE ALL ON FUNCTION public.start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea, p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb, p_fork_report bytea, OUT outcome text, OUT run uuid, OUT refusal jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION public.start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea, p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb, p_fork_report bytea, OUT outcome text, OUT run uuid, OUT refusal jsonb) TO rewind_api;
GRANT ALL ON FUNCTION public.start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea, p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb, p_fork_report bytea, OUT outcome text, OUT run uuid, OUT refusal jsonb) TO rewind_request;
GRANT ALL ON FUNCTION public.start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea, p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb, p_fork_report bytea, OUT outcome text, OUT run uuid, OUT refusal jsonb) TO rewind_worker;
GRANT ALL ON FUNCTION public.start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea, p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text, p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb, p_fork_report bytea, OUT outcome text, OUT run uuid, OUT refusal jsonb) TO rewind_retention;

REVOKE ALL ON FUNCTION public.suspend_namespace(p_ns uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION public.suspend_namespace(p_ns uuid) TO rewind_api;
GRANT ALL ON FUNCTION public.suspend_namespace(p_ns uuid) TO rewind_request;
GRANT ALL ON FUNCTION public.suspend_namespace(p_ns uuid) TO rewind_worker;
GRANT ALL ON FUNCTION public.suspend_namespace(p_ns uuid) TO rewind_retention;

REVOKE ALL ON FUNCTION public.suspend_organization(p_org uuid, p_reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.suspend_organization(p_org uuid, p_reason text) TO rewind_api;
GRANT ALL ON FUNCTION public.suspend_organization(p_org uuid, p_reason text) TO rewind_request;
GRANT ALL ON FUNCTION public.suspend_organization(p_org uuid, p_reason text) TO rewind_worker;
GRANT ALL ON FUNCTION public.suspend_organization(p_org uuid, p_reason text) TO rewind_retention;

REVOKE ALL ON FUNCTION public.today() FROM PUBLIC;
GRANT ALL ON FUNCTION public.today() TO rewind_api;
GRANT ALL ON FUNCTION public.today() TO rewind_request;
GRANT ALL ON FUNCTION public.today() TO rewind_worker;
GRANT ALL ON FUNCTION public.today() TO rewind_retention;

REVOKE ALL ON FUNCTION public.uuid_v7(p_at bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.uuid_v7(p_at bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.uuid_v7(p_at bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.uuid_v7(p_at bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.uuid_v7(p_at bigint) TO rewind_retention;

REVOKE ALL ON FUNCTION public.withdraw_approval(p_ns uuid, p_run uuid, p_call integer, p_at bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.withdraw_approval(p_ns uuid, p_run uuid, p_call integer, p_at bigint) TO rewind_api;
GRANT ALL ON FUNCTION public.withdraw_approval(p_ns uuid, p_run uuid, p_call integer, p_at bigint) TO rewind_request;
GRANT ALL ON FUNCTION public.withdraw_approval(p_ns uuid, p_run uuid, p_call integer, p_at bigint) TO rewind_worker;
GRANT ALL ON FUNCTION public.withdraw_approval(p_ns uuid, p_run uuid, p_call integer, p_at bigint) TO rewind_retention;

GRANT SELECT,INSERT,UPDATE ON TABLE public.api_keys TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.api_keys TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.approvals TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.approvals TO rewind_worker;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.approvals TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.approvals TO rewind_retention;

GRANT SELECT,INSERT ON TABLE public.audit_log TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.audit_log TO rewind_retention;
GRANT SELECT,INSERT ON TABLE public.audit_log TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.blobs TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.blobs TO rewind_worker;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.blobs TO rewind_request;
GRANT SELECT ON TABLE public.blobs TO rewind_retention;

GRANT UPDATE(touched_at) ON TABLE public.blobs TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.bulk_cancels TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.bulk_cancels TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.bulk_cancels TO rewind_retention;

GRANT SELECT,INSERT,UPDATE ON TABLE public.checked_scripts TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.checked_scripts TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.checked_scripts TO rewind_retention;

GRANT SELECT,INSERT,DELETE ON TABLE public.child_outbox TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.child_outbox TO rewind_worker;
GRANT SELECT,INSERT,DELETE ON TABLE public.child_outbox TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.child_outbox TO rewind_retention;

GRANT UPDATE(ident) ON TABLE public.child_outbox TO rewind_api;

GRANT SELECT ON TABLE public.clock TO rewind_api;
GRANT SELECT ON TABLE public.clock TO rewind_worker;
GRANT SELECT ON TABLE public.clock TO rewind_retention;
GRANT SELECT ON TABLE public.clock TO rewind_request;
GRANT UPDATE ON TABLE public.clock TO rewind_test;

GRANT SELECT,INSERT ON TABLE public.compiled_scripts TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.compiled_scripts TO rewind_worker;
GRANT SELECT,INSERT ON TABLE public.compiled_scripts TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.compiled_scripts TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.deliveries TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.deliveries TO rewind_request;
GRANT SELECT ON TABLE public.deliveries TO rewind_retention;

GRANT UPDATE(next_at) ON TABLE public.deliveries TO rewind_retention;

GRANT SELECT,INSERT ON TABLE public.entries TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.entries TO rewind_worker;
GRANT SELECT,INSERT ON TABLE public.entries TO rewind_request;
GRANT SELECT,DELETE,UPDATE ON TABLE public.entries TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.events TO rewind_api;
GRANT INSERT ON TABLE public.events TO rewind_worker;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.events TO rewind_request;
GRANT SELECT ON TABLE public.events TO rewind_retention;

GRANT UPDATE(body) ON TABLE public.events TO rewind_retention;

GRANT SELECT,INSERT,DELETE ON TABLE public.held_events TO rewind_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.held_events TO rewind_worker;
GRANT SELECT,INSERT,DELETE ON TABLE public.held_events TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.held_events TO rewind_retention;

GRANT SELECT,INSERT,DELETE ON TABLE public.idempotency TO rewind_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.idempotency TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.idempotency TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.identities TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.invitations TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.login_failures TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.mails TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.members TO rewind_api;

GRANT SELECT,INSERT,UPDATE ON TABLE public.namespace_keys TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.namespace_keys TO rewind_worker;
GRANT SELECT,INSERT,UPDATE ON TABLE public.namespace_keys TO rewind_request;
GRANT SELECT ON TABLE public.namespace_keys TO rewind_retention;

GRANT SELECT ON TABLE public.namespaces TO rewind_worker;
GRANT SELECT,INSERT,UPDATE ON TABLE public.namespaces TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.namespaces TO rewind_request;
GRANT SELECT ON TABLE public.namespaces TO rewind_retention;

GRANT UPDATE(erased_at) ON TABLE public.namespaces TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.organization_domains TO rewind_api;

GRANT SELECT,INSERT,UPDATE ON TABLE public.organizations TO rewind_api;
GRANT SELECT ON TABLE public.organizations TO rewind_request;

GRANT UPDATE(name) ON TABLE public.organizations TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.passkeys TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.pending TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.pending TO rewind_worker;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.pending TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.pending TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.people TO rewind_api;

GRANT SELECT,INSERT,UPDATE ON TABLE public.quarantines TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.quarantines TO rewind_worker;
GRANT SELECT,INSERT,UPDATE ON TABLE public.quarantines TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.quarantines TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.quota_notices TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.quota_notices TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.quotas TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.quotas TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.rate_marks TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.rate_marks TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.recovery_codes TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.replays TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.replays TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.replays TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.resets TO rewind_api;

GRANT SELECT,UPDATE ON TABLE public.run_facts TO rewind_worker;
GRANT SELECT,INSERT,UPDATE ON TABLE public.run_facts TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.run_facts TO rewind_request;
GRANT SELECT,DELETE,UPDATE ON TABLE public.run_facts TO rewind_retention;

GRANT SELECT,UPDATE ON TABLE public.runs TO rewind_worker;
GRANT SELECT,INSERT,UPDATE ON TABLE public.runs TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.runs TO rewind_request;
GRANT SELECT,DELETE,UPDATE ON TABLE public.runs TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sandbox_requests TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sandbox_requests TO rewind_worker;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sandbox_requests TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.sandbox_requests TO rewind_retention;

GRANT SELECT ON TABLE public.schema_migrations TO rewind_api;
GRANT SELECT ON TABLE public.schema_migrations TO rewind_worker;
GRANT SELECT ON TABLE public.schema_migrations TO rewind_retention;
GRANT SELECT ON TABLE public.schema_migrations TO rewind_request;

GRANT SELECT,INSERT ON TABLE public.scripts TO rewind_api;
GRANT SELECT ON TABLE public.scripts TO rewind_worker;
GRANT SELECT,INSERT ON TABLE public.scripts TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.scripts TO rewind_retention;

GRANT SELECT,INSERT,UPDATE ON TABLE public.seal_heads TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.seal_heads TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.seal_heads TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.secrets TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.secrets TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sessions TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sign_in_steps TO rewind_api;

GRANT SELECT,INSERT,DELETE ON TABLE public.signal_ids TO rewind_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.signal_ids TO rewind_worker;
GRANT SELECT,INSERT,DELETE ON TABLE public.signal_ids TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.signal_ids TO rewind_retention;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.signups TO rewind_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sso_connections TO rewind_api;

GRANT SELECT,INSERT,UPDATE ON TABLE public.tokens TO rewind_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.tokens TO rewind_request;
GRANT SELECT,DELETE ON TABLE public.tokens TO rewind_retention;

GRANT SELECT,INSERT ON TABLE public.toolset_servers TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.toolset_servers TO rewind_request;

GRANT SELECT ON TABLE public.toolset_versions TO rewind_worker;
GRANT SELECT,INSERT ON TABLE public.toolset_versions TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.toolset_versions TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.toolsets TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.toolsets TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.usage_days TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.usage_days TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.usage_deltas TO rewind_api;
GRANT INSERT ON TABLE public.usage_deltas TO rewind_worker;
GRANT INSERT ON TABLE public.usage_deltas TO rewind_retention;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.usage_deltas TO rewind_request;

GRANT SELECT,INSERT ON TABLE public.value_refs TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.value_refs TO rewind_worker;
GRANT SELECT,DELETE ON TABLE public.value_refs TO rewind_retention;
GRANT SELECT,INSERT ON TABLE public.value_refs TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.webhook_endpoints TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.webhook_endpoints TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.workers TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.workers TO rewind_worker;

GRANT SELECT,INSERT ON TABLE public.workflow_versions TO rewind_api;
GRANT SELECT,INSERT ON TABLE public.workflow_versions TO rewind_request;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.workflows TO rewind_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.workflows TO rewind_request;

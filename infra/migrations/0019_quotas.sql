-- Usage and quotas of namespaces. Only starts lock a namespace's counters; everything else that is used INSERTs a
-- delta, which the next start folds in under that lock. Deltas are written by triggers, so that no way to end a run
-- or to store a value goes uncounted. Days and months are those of UTC.

alter table organizations
  add column plan text collate "C" not null default 'open',
  add column limits jsonb not null default '{}';
comment on column organizations.plan is 'See billing/plans.py; open: no limits but those of the engine.';
comment on column organizations.limits is 'What the plan allows each namespace, by quota; written with the plan.';

create table quotas (
  namespace_id uuid primary key,
  organization_id uuid not null,
  limits jsonb not null
);
comment on table quotas is 'Limits of a namespace that replace those of the plan.';

create table usage_counters (
  namespace_id uuid primary key,
  active int not null default 0,
  storage_bytes bigint not null default 0
);
comment on column usage_counters.active is 'Runs that have not ended, less those whose end waits in usage_deltas.';

create table usage_days (
  namespace_id uuid not null,
  day date not null,
  runs int not null default 0,
  scripts int not null default 0,
  cpu_us bigint not null default 0,
  calls int not null default 0,
  storage_bytes bigint not null default 0,
  primary key (namespace_id, day)
);
comment on column usage_days.storage_bytes is 'What was added on that day, less what was deleted.';

create table usage_deltas (
  namespace_id uuid not null,
  id bigint generated always as identity,
  day date not null,
  ended int not null default 0,
  cpu_us bigint not null default 0,
  calls int not null default 0,
  bytes bigint not null default 0,
  primary key (namespace_id, id)
);

create table quota_notices (
  namespace_id uuid not null,
  quota text collate "C" not null,
  period text collate "C" not null,
  primary key (namespace_id, quota, period)
);
comment on table quota_notices is 'quota.exceeded was told for this quota and window: the month, or the day.';

alter table runs add column metered_us bigint not null default 0, add column metered_calls int not null default 0;
alter table run_facts add column journal_bytes bigint;
alter table blobs add column bytes bigint not null default 0;
alter table events add column detail jsonb;
comment on column runs.metered_us is 'Of cpu_us, what stands in usage; the rest follows at the end, or once it is a second.';
comment on column events.detail is 'Of quota.exceeded: the refusal.';

create function today() returns date language sql stable as $$
  select (to_timestamp(now_ms() / 1000.0) at time zone 'UTC')::date
$$;

create function meter_run() returns trigger language plpgsql as $$
begin
  insert into usage_deltas (namespace_id, day, cpu_us, calls)
    values (new.namespace_id, today(), new.cpu_us - new.metered_us, new.calls - new.metered_calls);
  update runs set metered_us = new.cpu_us, metered_calls = new.calls
    where namespace_id = new.namespace_id and run_id = new.run_id;
  return null;
end $$;
create trigger runs_metered after update of cpu_us on runs for each row
  when (new.cpu_us - new.metered_us >= 1000000) execute function meter_run();

create function count_end() returns trigger language plpgsql as $$
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
create trigger run_facts_ended after update of ended_at on run_facts for each row
  when (old.ended_at is null and new.ended_at is not null) execute function count_end();

create function count_deletion() returns trigger language plpgsql as $$
begin
  insert into usage_deltas (namespace_id, day, ended, bytes)
    values (old.namespace_id, today(), case when old.ended_at is null then 1 else 0 end, -coalesce(old.journal_bytes, 0));
  return null;
end $$;
create trigger run_facts_deleted after delete on run_facts for each row execute function count_deletion();

create function count_value() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into usage_deltas (namespace_id, day, bytes) values (new.namespace_id, today(), new.bytes);
  else
    insert into usage_deltas (namespace_id, day, bytes) values (old.namespace_id, today(), -old.bytes);
  end if;
  return null;
end $$;
create trigger blobs_counted after insert or delete on blobs for each row execute function count_value();

-- Take in what was used since. The namespace's counters are locked from here to the end of the transaction.
create function fold_usage(p_ns uuid) returns usage_counters language plpgsql as $$
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

create function quota_limits(p_ns uuid, p_organization uuid) returns jsonb language sql stable as $$
  select o.limits || coalesce((select q.limits from quotas q where q.namespace_id = p_ns), '{}')
  from organizations o where o.id = p_organization
$$;

create function quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) returns jsonb
language sql stable as $$
  select jsonb_build_object('quota', p_quota, 'limit', p_limit, 'used', p_used, 'now', now_ms(), 'resets_at', case when p_monthly then
    (extract(epoch from (date_trunc('month', today()) + interval '1 month') at time zone 'UTC') * 1000)::bigint end)
$$;

-- Tell it once per quota and window.
create function note_quota(p_ns uuid, p_refusal jsonb) returns void language plpgsql as $$
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

-- May one more run start? Null: it is counted. Otherwise nothing is, and the refusal says why not.
create function admit_run(p_ns uuid, p_organization uuid) returns jsonb language plpgsql as $$
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

create function count_script() returns trigger language plpgsql as $$
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
create trigger scripts_counted after insert on scripts for each row execute function count_script();
comment on function count_script is 'Only scripts that were not known: a conflicting insert fires no trigger.';

-- What operators do about runs: quarantine one for a drill, release it, abandon it; and the audit log of it.

create table audit_log (
  id uuid primary key,
  organization_id uuid not null,
  at bigint not null,
  actor_kind text not null,
  actor_id text not null,
  action text not null,
  target text not null,
  ip text,
  before jsonb,
  after jsonb
);
comment on table audit_log is 'Who did what to what, for those who answer for it. Append-only by grant.';
create index audit_log_newest on audit_log (organization_id, at desc, id);

comment on column pending.kind is '0 tool call, 1 timer, 2 signal wait, 4 deadline of the run, 5 its start, 6 its abandonment.';

-- Puts a run there whoever owns it; the owner's next append is refused. Null: it is not active.
create function quarantine_by_operator(p_ns uuid, p_run uuid, p_report bytea) returns uuid language plpgsql as $$
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

-- Tries again: the run is active, its deadline counts, and a worker may claim it if an event waits.
-- False: it is not quarantined, or is being abandoned.
create function release_quarantined(p_ns uuid, p_run uuid) returns boolean language plpgsql as $$
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

-- Calls that have not begun, or were deferred, are due now; begun ones are told to stop and have 30 s. The scheduler
-- settles them, and appends the end when none is left. False: the run is not quarantined.
create function abandon_quarantined(p_ns uuid, p_run uuid) returns boolean language plpgsql as $$
declare
  at bigint := now_ms();
begin
  perform from runs where namespace_id = p_ns and run_id = p_run and status = 5 for no key update;
  if not found then return false; end if;
  update pending set stopping = true, due_why = case when deferred then 6 else 2 end,
      due = case when attempt = 0 or deferred then at else at + 30000 end
    where namespace_id = p_ns and run_id = p_run and kind = 0 and not stopping;
  insert into pending (namespace_id, run_id, kind, n, seq, since, due) values (p_ns, p_run, 6, 0, 0, at, at)
    on conflict do nothing;
  return true;
end $$;

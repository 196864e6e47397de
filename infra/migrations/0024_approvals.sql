-- Approvals. A gated call is not offered before a person decided. One row here for each call that asked, written by
-- the append that records the call and changed by the append that decides it, so that lists need no journal; what
-- was said (by, reason) stands in approval_decided alone.

create table approvals (
  namespace_id uuid not null,
  run_id uuid not null,
  call int not null,
  organization_id uuid not null,
  tool text collate "C" not null,
  seq int not null,
  requested_at bigint not null,
  expires_at bigint not null,
  status smallint not null default 0,
  decided_seq int,
  decided_at bigint,
  primary key (namespace_id, run_id, call)
);
comment on column approvals.seq is 'Of the schedule_tool_call.';
comment on column approvals.expires_at is 'As the tool says, but not after the run''s deadline.';
comment on column approvals.status is '0 pending, 1 approved, 2 denied, 3 expired, 4 withdrawn undecided (shown as expired).';
create index approvals_organization on approvals (organization_id, requested_at, run_id, call);
create index approvals_open on approvals (organization_id, requested_at, run_id, call) where status = 0;
create index approvals_namespace on approvals (namespace_id, requested_at, run_id, call);

comment on column pending.due_why is 'Calls: 1 the call''s timeout, 2 told to stop (cancelled), 3 clean-up call, 4 deferral '
  'expires, 5 approval expires, 6 deferred and withdrawn.';

create function request_approval(p_ns uuid, p_run uuid, p_organization uuid, p_call int, p_seq int, p_tool text,
  p_at bigint, p_expires bigint) returns void language sql as $$
  insert into approvals (namespace_id, run_id, call, organization_id, tool, seq, requested_at, expires_at)
    select p_ns, p_run, p_call, p_organization, p_tool, p_seq, p_at, least(p_at + p_expires, f.deadline)
    from run_facts f where f.namespace_id = p_ns and f.run_id = p_run;
  select emit_event(p_ns, p_organization, 'approval.requested', p_run, p_seq, p_call)
$$;
comment on function request_approval is 'In the append that makes a gated call pending. p_expires null: it waits as long as the run.';

create function withdraw_approval(p_ns uuid, p_run uuid, p_call int, p_at bigint) returns void language sql as $$
  update approvals set status = 4, decided_at = p_at
    where namespace_id = p_ns and run_id = p_run and call = p_call and status = 0
$$;
comment on function withdraw_approval is 'Its call has an outcome without a decision: nobody can decide it any more.';

-- The decision of one call, under the run's row lock: the pending row that is still gated is the guard. Approved
-- (1): the call is on offer from now on. Denied (2) and expired (3): the call is completed in the same append.
-- A run that is being cancelled approves nothing more; what it waits for is withdrawn.
create function decide_approval(p_ns uuid, p_run uuid, p_call int, p_decision smallint, p_body bytea,
  p_completion bytea, out verdict event_verdict, out route smallint, out organization uuid, out toolset text,
  out tool text)
language plpgsql as $$
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

-- Workflows: scripts under a name, which other scripts call. Such a call is a run of its own, a child. Its id
-- follows from the run and the call, so that starting it twice starts one. While it runs, the pending row of the
-- call is held by it: claim_id is the child's id, and there is no lease. The child's end and the loss of a parent
-- are rows of child_outbox, written where they happen and handled by the dispatcher.

create table workflows (
  organization_id uuid not null,
  id uuid not null,
  name text collate "C" not null,
  digest text collate "C" not null,
  created_at bigint not null,
  updated_at bigint not null,
  primary key (organization_id, name)
);
comment on column workflows.digest is 'The latest version: what new runs get.';

create table workflow_versions (
  organization_id uuid not null,
  name text collate "C" not null,
  digest text collate "C" not null,
  script text collate "C" not null,
  source text not null,
  toolset text collate "C",
  toolset_digest text collate "C",
  description text not null,
  epoch smallint not null,
  checker text not null,
  compiled jsonb not null,
  input_type text,
  output_type text,
  input_schema jsonb not null,
  output_schema jsonb not null,
  warnings jsonb not null,
  created_at bigint not null,
  primary key (organization_id, name, digest)
);
comment on table workflow_versions is 'Immutable, and kept when the workflow is deleted: toolsets are pinned to them.';
comment on column workflow_versions.compiled is 'With what the checker said: copied to each namespace at its first use.';

create table child_outbox (
  namespace_id uuid not null,
  run_id uuid not null,
  orphaned boolean not null,
  at bigint not null,
  primary key (namespace_id, run_id, orphaned)
);
comment on table child_outbox is 'Children that have ended, for whoever awaits them to be told; orphaned: children that '
  'are to be cancelled, because the run that awaited them has ended.';
create index child_outbox_at on child_outbox (at);

create index pending_children_stopping on pending (namespace_id, run_id, n)
  where kind = 0 and stopping and claim_id is not null and lease_until is null;

create or replace function end_run(p_ns uuid, p_run uuid, p_status smallint, p_seq int, p_at bigint) returns void
language plpgsql as $$
declare
  org uuid;
  par jsonb;
begin
  update runs set status = p_status, owner = null, ready = false where namespace_id = p_ns and run_id = p_run;
  delete from pending where namespace_id = p_ns and run_id = p_run;
  delete from signal_ids where namespace_id = p_ns and run_id = p_run;
  update run_facts set status = p_status, ended_at = p_at, end_seq = p_seq
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

-- May the dispatcher with this claim start the child of a call? 'gone': the call is not its any more; 'known': the
-- child was started before. Until the end of the transaction nobody else starts it, nor ends it.
create function claim_child(p_claim uuid, p_ns uuid, p_run uuid, p_n int, p_child uuid) returns text
language plpgsql as $$
begin
  perform from runs where namespace_id = p_ns and run_id = p_child for share;
  perform from pending where namespace_id = p_ns and run_id = p_run and kind = 0 and n = p_n and claim_id = p_claim
    for update;
  if not found then return 'gone'; end if;
  perform from runs where namespace_id = p_ns and run_id = p_child for share;
  return case when found then 'known' else 'new' end;
end $$;

-- From here on the child has the call. One that has ended by now is put into the outbox again.
create function hold_call(p_ns uuid, p_run uuid, p_n int, p_child uuid) returns void language sql as $$
  update pending set claim_id = p_child, lease_until = null
    where namespace_id = p_ns and run_id = p_run and kind = 0 and n = p_n;
  insert into child_outbox select f.namespace_id, f.run_id, false, f.ended_at from run_facts f
    where f.namespace_id = p_ns and f.run_id = p_child and f.ended_at is not null on conflict do nothing;
$$;

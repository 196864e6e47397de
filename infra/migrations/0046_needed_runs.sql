-- What something still needs is neither deleted nor redacted: the parent of a fork that is being made, a child that a call
-- was given meanwhile. Whoever begins to need a run locks its row, whoever takes it away locks it before it looks.

create function forks_being_made(p_ns uuid, p_run uuid) returns setof uuid language sql stable as $$
  select d.run_id from run_facts d join runs c on c.namespace_id = d.namespace_id and c.run_id = d.run_id
    where d.namespace_id = p_ns and d.parent ->> 'run' = p_run::text and c.forking and c.status in (0, 5)
$$;
comment on function forks_being_made is 'Forks that still read the journal of this run.';

create or replace function delete_runs(p_ns uuid, p_runs uuid[]) returns int language plpgsql as $$
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
comment on function delete_runs is 'How many were deleted: those that have ended, are sealed, whose end was told to a run that awaits it, '
  'and that no fork is being made from.';

create or replace function start_run(p_ns uuid, p_organization uuid, p_run uuid, p_at bigint, p_deadline bigint, p_body bytea,
  p_epoch smallint, p_script text, p_toolset text, p_toolset_digest text, p_workflow text, p_labels jsonb, p_by_kind text,
  p_by_id text, p_parent jsonb, p_route text, p_key text, p_request bytea, p_held boolean, p_fork jsonb default null,
  p_fork_report bytea default null, out outcome text, out run uuid, out refusal jsonb) language plpgsql as $$
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

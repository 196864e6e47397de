-- A claim that holds leases already gets these first and new calls for the room that is left: a claim that was leased
-- one call in an append would otherwise be answered with that alone, again and again, while others wait.
create or replace function claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid,
  p_limit int, p_lease_ms bigint)
returns table (namespace_id uuid, run_id uuid, n int, name text, attempt smallint, begun_at bigint,
  lease_until bigint, stopping boolean, body bytea, namespace_name text, labels jsonb, releases int)
language plpgsql as $$
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

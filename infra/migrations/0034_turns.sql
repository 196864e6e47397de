-- Of many namespaces with something to claim, not always the same comes first: see decision 0028.

create or replace function claim_runs(p_worker bigint, p_epochs smallint[], p_limit int, p_busy_ns uuid[] default '{}',
  p_busy int[] default '{}', p_share int default 2147483647)
returns table (namespace_id uuid, run_id uuid, epoch smallint, owner_epoch int, commands int, delivered int, next_seq int)
language plpgsql as $$
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

create or replace function claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid,
  p_limit int, p_lease_ms bigint)
returns table (namespace_id uuid, run_id uuid, n int, name text, attempt smallint, begun_at bigint,
  lease_until bigint, stopping boolean, body bytea, namespace_name text, labels jsonb, releases int)
language plpgsql as $$
#variable_conflict use_column
declare
  at bigint := now_ms();
  got task_row[];
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
  if got is null then
    if exists (select from pending p where p.kind = 0 and p.route = 0 and p.slot is not null and p.claim_id is null
        and not p.gated and not p.deferred and not p.stopping and p.organization_id = p_organization) then
      -- Half of the time calls with limits may take it all, so that neither kind starves the other.
      select array_agg(k.namespace_id), array_agg(k.run_id), array_agg(k.n) into paced, paced_runs, paced_calls
        from pick_paced(0::smallint, p_organization, p_namespace, p_toolset, p_tools,
          case when random() < 0.5 or not exists (select from pending p where p.kind = 0 and p.route = 0
            and p.claim_id is null and p.slot is null and not p.gated and not p.deferred
            and p.organization_id = p_organization and (p_namespace is null or p.namespace_id = p_namespace)
            and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools)))
          then p_limit else p_limit / 2 end, '{}', '{}', '{}', '{}', '{}', 0) k;
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
        order by p.run_id, p.n limit p_limit) q
    ), picked as (
      select p.namespace_id, p.run_id, p.n from pending p
      where (p.namespace_id, p.run_id, p.n) in (select k.namespace_id, k.run_id, k.n from ranked k order by k.rank, k.lot
          limit p_limit - coalesce(cardinality(paced), 0))
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
    select array_agg(row (t.*)::task_row) into got from taken t;
  end if;
  return query
    select t.namespace_id, t.run_id, t.n, t.name, t.attempt, t.begun_at, t.lease_until, t.stopping, e.body, s.name, f.labels,
      t.releases
    from unnest(got) t
    join entries e on e.namespace_id = t.namespace_id and e.run_id = t.run_id and e.seq = t.seq
    join run_facts f on f.namespace_id = t.namespace_id and f.run_id = t.run_id
    join namespaces s on s.id = t.namespace_id
    order by t.run_id, t.n;
end $$;

create or replace function claim_calls(p_claim uuid, p_limit int, p_server_max int, p_lease_ms bigint, p_full uuid[],
  p_org uuid[], p_toolset text[], p_server text[], p_free int[])
returns table (namespace_id uuid, run_id uuid, n int, name text, attempt smallint, begun_at bigint, left_ms bigint,
  body bytea, organization_id uuid, toolset text, toolset_digest text, paced boolean)
language plpgsql as $$
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

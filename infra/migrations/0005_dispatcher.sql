-- Calls that Rewind makes itself. A claim is the durable `sent` mark: only what was claimed goes out, and what
-- was claimed by a dispatcher that died is settled by the rule of lost leases. A server is known here by
-- organization, toolset and group (the part of the tool's name before the dot): each has its own room, so that
-- one that hangs is passed over.

create index pending_dispatch on pending
  (organization_id, toolset, split_part(name, '.', 1), namespace_id, run_id, n)
  where kind = 0 and route = 1 and claim_id is null and not gated and not deferred and not stopping;

-- Calls that were picked, and are locked by who picked them.
create function begin_calls(p_claim uuid, p_lease_ms bigint, p_ns uuid[], p_run uuid[], p_n int[])
returns table (namespace_id uuid, run_id uuid, n int, name text, attempt smallint, begun_at bigint, left_ms bigint,
  body bytea, organization_id uuid, toolset text, toolset_digest text, paced boolean)
language plpgsql as $$
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

-- p_free: how many more calls the servers named by (p_org, p_toolset, p_server) may get; others get p_server_max.
-- Within a server, namespaces take turns. p_full: organizations that have enough in flight.
create function claim_calls(p_claim uuid, p_limit int, p_server_max int, p_lease_ms bigint, p_full uuid[],
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
        select q.*, row_number() over (partition by q.namespace_id order by q.run_id, q.n) as rank
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
            in (select k.namespace_id, k.run_id, k.n from ranked k order by k.rank limit room)
          and p.kind = 0 and p.claim_id is null and not p.gated and not p.deferred and not p.stopping
        for update skip locked
      )
      select b.* from (select array_agg(k.namespace_id) as ns, array_agg(k.run_id) as runs, array_agg(k.n) as calls
        from picked k) k cross join lateral begin_calls(p_claim, p_lease_ms, k.ns, k.runs, k.calls) b;
    get diagnostics got = row_count;
    p_limit := p_limit - got;
  end loop;
end $$;

-- Every lease of a dispatcher, lengthened; what is missing in the answer was settled by somebody else.
create function renew_calls(p_claim uuid, p_lease_ms bigint)
returns table (namespace_id uuid, run_id uuid, n int, attempt smallint) language sql as $$
  update pending p set lease_until = now_ms() + p_lease_ms where p.claim_id = p_claim and p.kind = 0 and p.route = 1
    returning p.namespace_id, p.run_id, p.n, p.attempt
$$;

-- Not sent: the attempt is given back, so that a call whose only attempt was released has not begun.
create function release_calls(p_claim uuid, p_ns uuid[], p_run uuid[], p_n int[]) returns void language sql as $$
  update pending p set claim_id = null, lease_until = null, attempt = p.attempt - 1,
      begun_at = case when p.attempt = 1 then null else p.begun_at end, releases = p.releases + 1,
      due = case when p.attempt > 1 then p.due when p.due_why = 1 then null when p.due_why = 2 then now_ms()
        when p.due_why = 3 then now_ms() + 30000 else p.due end,
      due_why = case when p.due_why = 1 and p.attempt = 1 then null else p.due_why end
    from unnest(p_ns, p_run, p_n) a (ns, run, n)
    where p.namespace_id = a.ns and p.run_id = a.run and p.kind = 0 and p.n = a.n and p.claim_id = p_claim
$$;

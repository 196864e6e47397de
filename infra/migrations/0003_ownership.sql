-- Who executes a run, and who executes a host tool's call: claims, leases, releases.

-- Round-robin over namespaces: each gets an equal share of the claim, found by skipping from one
-- namespace to the next along the index, so that one tenant's burst is not even read.
-- p_busy says how many runs of which namespace the worker has at work; none gets more than p_share of them.
create function claim_runs(p_worker bigint, p_epochs smallint[], p_limit int, p_busy_ns uuid[] default '{}',
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
      coalesce(b.busy, 0) + row_number() over (partition by q.namespace_id order by q.run_id) as rank
    from found_spaces s left join unnest(p_busy_ns, p_busy) b (ns, busy) on b.ns = s.namespace_id
    cross join lateral (
      select r.namespace_id, r.run_id from runs r
      where r.ready and r.namespace_id = s.namespace_id and r.epoch = any (p_epochs)
      order by r.run_id limit greatest(0, least(p_limit, p_share - coalesce(b.busy, 0)))) q
  ), picked as (
    select r.namespace_id, r.run_id from runs r
    where (r.namespace_id, r.run_id) in (select k.namespace_id, k.run_id from ranked k order by k.rank limit p_limit)
      and r.ready and r.owner is null and r.status = 0
    for no key update skip locked
  )
  update runs r set owner = p_worker, owner_epoch = r.owner_epoch + 1, ready = false
    from picked p where r.namespace_id = p.namespace_id and r.run_id = p.run_id
    returning r.namespace_id, r.run_id, r.epoch, r.owner_epoch, r.commands, r.delivered, r.next_seq;
end $$;

-- How many of them wait for an owner now: an event may have come since their owner looked last.
create function release_runs(p_worker bigint, p_ns uuid[], p_run uuid[]) returns bigint language sql as $$
  with mine as (
    select r.namespace_id, r.run_id from runs r
    where (r.namespace_id, r.run_id) in (select * from unnest(p_ns, p_run)) and r.owner = p_worker
    order by r.namespace_id, r.run_id for no key update),
  released as (
    update runs r set owner = null, ready = (r.status = 0 and r.last_event > r.delivered)
      from mine m where r.namespace_id = m.namespace_id and r.run_id = m.run_id returning r.ready)
  select count(*) from released where ready
$$;

-- A worker is dead when its advisory lock is free, and superseded when it has not been heard of since p_stale.
create function reap_workers(p_stale bigint) returns table (worker_id bigint, runs int) language plpgsql as $$
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

create type task_row as (namespace_id uuid, run_id uuid, n int, name text, attempt smallint, begun_at bigint,
  lease_until bigint, stopping boolean, seq int, releases int);

create function claim_tasks(p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[], p_claim uuid,
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
      select q.*, row_number() over (partition by q.namespace_id order by q.run_id, q.n) as rank
      from found_spaces s cross join lateral (
        select p.namespace_id, p.run_id, p.n from pending p
        where p.kind = 0 and p.route = 0 and p.claim_id is null and p.slot is null and not p.gated and not p.deferred
          and p.organization_id = p_organization and p.namespace_id = s.namespace_id
          and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools))
          and (p.available_at is null or p.available_at <= at) and not p.stopping
        order by p.run_id, p.n limit p_limit) q
    ), picked as (
      select p.namespace_id, p.run_id, p.n from pending p
      where (p.namespace_id, p.run_id, p.n) in (select k.namespace_id, k.run_id, k.n from ranked k order by k.rank
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
comment on function claim_tasks is 'The same claim again is answered with what it holds, with fresh leases, before anything new.';

-- Leases of tasks, by (namespace, run, call, attempt, releases); one that has ended is answered with null: what
-- the former holder of a lease says a second time does not touch the lease of the next one.
create function heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n int[], p_attempt smallint[], p_releases int[],
  p_lease_ms bigint)
returns table (i int, lease_until bigint, stopping boolean) language sql as $$
  with asked as (
    select * from unnest(p_ns, p_run, p_n, p_attempt, p_releases) with ordinality a (ns, run, n, attempt, releases, i)),
  kept as (
    update pending p set lease_until = now_ms() + p_lease_ms from asked a
    where p.namespace_id = a.ns and p.run_id = a.run and p.kind = 0 and p.n = a.n and p.attempt = a.attempt
      and p.releases = a.releases and p.claim_id is not null
    returning a.i, p.lease_until, p.stopping)
  select a.i::int, k.lease_until, k.stopping from asked a left join kept k using (i) order by a.i
$$;

-- No deferral outlives the order to stop, nor the time that a clean-up call has.
create function defer_tasks(p_ns uuid[], p_run uuid[], p_n int[], p_attempt smallint[], p_releases int[],
  p_expires bigint[])
returns table (i int, ok boolean) language sql as $$
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

-- p_lease, for who has only heard of a lease: nothing is released that ends at another time by now, since the same
-- claim may have been answered with it elsewhere, and its holder may have begun.
-- Not started: the attempt is given back, so that a call whose only attempt was released has not begun. If it was
-- told to stop, it is due now: nobody gets it any more.
create function release_tasks(p_ns uuid[], p_run uuid[], p_n int[], p_attempt smallint[], p_releases int[],
  p_after bigint[], p_lease bigint[] default null)
returns table (i int, ok boolean) language sql as $$
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

-- Leases that ran out: calls that may be repeated are offered again, unless they were told to stop; the others
-- are answered, for the scheduler to complete them with OutcomeUnknownError.
create function expire_leases(p_limit int)
returns table (namespace_id uuid, run_id uuid, n int, attempt smallint, begun_at bigint, reoffered boolean)
language sql as $$
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

-- The deadline waits while a run is quarantined: its pending row loses its due time until the release.
create function quarantine_run(p_worker bigint, p_ns uuid, p_run uuid, p_report bytea) returns void
language plpgsql as $$
begin
  update runs set status = 5, owner = null, ready = false
    where namespace_id = p_ns and run_id = p_run and status = 0 and owner = p_worker;
  if not found then return; end if;
  update run_facts set status = 5 where namespace_id = p_ns and run_id = p_run;
  update pending set due = null where namespace_id = p_ns and run_id = p_run and kind = 4;
  insert into quarantines (namespace_id, run_id, at, report) values (p_ns, p_run, now_ms(), p_report);
end $$;

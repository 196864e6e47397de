-- Whoever asks for a run's cancel and then hears of its tasks hears that they are to stop: also in the moment before
-- the run's owner has delivered the cancel. Whatever is pending until then was called before it.

create or replace function heartbeat_tasks(p_ns uuid[], p_run uuid[], p_n int[], p_attempt smallint[], p_releases int[],
  p_lease_ms bigint) returns table (i int, lease_until bigint, stopping boolean)
language sql as $$
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

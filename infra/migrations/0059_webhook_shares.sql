-- Who has most deliveries under way comes last, and nobody has more than a share: receivers that hang take a place for
-- as long as we wait for them, and the organization with the lowest id took all there were.
create function claim_deliveries(p_limit int, p_per_endpoint int, p_share int, p_lease_ms bigint)
  returns table (organization_id uuid, endpoint_id uuid, id uuid, namespace_id uuid, event_id uuid, attempt int,
    failures int, url text, secret bytea, previous_secret bytea, body bytea) language sql as $$
  with now as materialized (select now_ms() as at),
  waiting as (
    select distinct d.organization_id, d.endpoint_id from deliveries d, now where d.next_at <= now.at),
  busy as materialized (
    select w.organization_id, count(b.id) as n
    from now cross join (select distinct organization_id from waiting) w
      left join deliveries b on b.organization_id = w.organization_id and b.lease_until > now.at
    group by w.organization_id),
  ranked as (
    select found.organization_id, found.endpoint_id, found.id,
      busy.n + row_number() over (partition by found.organization_id order by found.next_at) as rank
    from now cross join waiting w
      join busy on busy.organization_id = w.organization_id
      join webhook_endpoints e on e.organization_id = w.organization_id and e.id = w.endpoint_id
        and e.disabled_at is null
      cross join lateral (
        select d.organization_id, d.endpoint_id, d.id, d.next_at from deliveries d
        where d.organization_id = e.organization_id and d.endpoint_id = e.id and d.next_at <= now.at
        order by d.next_at
        limit greatest(0, p_per_endpoint - (select count(*) from deliveries b where b.organization_id = e.organization_id
          and b.endpoint_id = e.id and b.lease_until > now.at))) found),
  picked as (
    select r.organization_id, r.endpoint_id, r.id from ranked r where r.rank <= p_share
    order by r.rank, random() limit p_limit),
  due as (
    select d.organization_id, d.endpoint_id, d.id from now, deliveries d
    where (d.organization_id, d.endpoint_id, d.id) in (select p.organization_id, p.endpoint_id, p.id from picked p)
      and d.next_at <= now.at
    for update of d skip locked),
  leased as (
    update deliveries d set attempt = d.attempt + 1, at = now.at, next_at = now.at + p_lease_ms,
        lease_until = now.at + p_lease_ms
      from due, now where d.organization_id = due.organization_id and d.endpoint_id = due.endpoint_id and d.id = due.id
      returning d.*)
  select l.organization_id, l.endpoint_id, l.id, l.namespace_id, l.event_id, l.attempt, l.failures, e.url, e.secret,
    case when e.previous_until > now.at then e.previous_secret end, v.body
  from leased l, now, webhook_endpoints e, events v
  where e.organization_id = l.organization_id and e.id = l.endpoint_id
    and v.namespace_id = l.namespace_id and v.id = l.event_id and v.body is not null
$$;
comment on function claim_deliveries(int, int, int, bigint) is 'p_share: of one organization, under way on all hosts. An attempt that is never reported is made again when its lease has ended.';

-- Limits of tools: how many of their calls are in the air at once, how many begin in a while, how long one waits
-- to begin. Enforced where calls are claimed, so for all replicas together. Calls with such a limit are in indexes of
-- their own: those that must wait stand in nobody's way, and calls without limits cost nothing more.

alter table pending add column pace jsonb, add column slot text collate "C", add column queue_ms bigint;
comment on column pending.pace is 'Of a call whose tool has limits, as its draft says: {slot, slots?, rate?, rate_limit?, '
  'per_ms?, queue_ms?}.';
comment on column pending.slot is 'Calls of an organization with the same one share the limits of their pace.';
comment on column pending.queue_ms is 'How long the call may wait on offer before its first claim.';

drop index pending_offered;
create index pending_offered on pending (organization_id, namespace_id, run_id, n)
  where kind = 0 and route = 0 and claim_id is null and not gated and not deferred and slot is null;
drop index pending_dispatch;
create index pending_dispatch on pending
  (organization_id, toolset, split_part(name, '.', 1), namespace_id, run_id, n)
  where kind = 0 and route = 1 and claim_id is null and not gated and not deferred and not stopping and slot is null;
create index pending_paced on pending (organization_id, slot, namespace_id, run_id, n)
  where kind = 0 and route = 0 and slot is not null and claim_id is null and not gated and not deferred
    and not stopping;
create index pending_paced_dispatch on pending (slot, organization_id, namespace_id, run_id, n)
  where kind = 0 and route = 1 and slot is not null and claim_id is null and not gated and not deferred
    and not stopping;
create index pending_slots on pending (organization_id, slot)
  where slot is not null and (claim_id is not null or deferred);

create table rate_marks (
  organization_id uuid not null,
  rate text collate "C" not null,
  bucket bigint not null,
  count int not null,
  primary key (organization_id, rate, bucket)
);
comment on table rate_marks is 'How many calls of a rate began in each twentieth of its time. A window of 21 of them is '
  'never shorter than that time, so no window of that time has more than the limit.';

-- What a call is on offer for: the same rule whoever changes the row.
create function pace_call() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    new.slot := md5(coalesce(new.toolset, '') || '/' || (new.pace ->> 'slot'));
    new.queue_ms := (new.pace ->> 'queue_ms')::bigint;
  end if;
  if new.queue_ms is null then return new; end if;
  if new.due_why = 7 and (new.claim_id is not null or new.attempt > 0) then
    new.due := new.begun_at + new.timeout_ms;
    new.due_why := case when new.timeout_ms is not null then 1 end;
  elsif new.due is null and new.attempt = 0 and new.claim_id is null and not new.gated and not new.deferred
    and new.route < 2 then
    new.due := now_ms() + new.queue_ms;
    new.due_why := 7;
  end if;
  return new;
end $$;
create trigger pace_inserted before insert on pending for each row when (new.pace is not null)
  execute function pace_call();
create trigger pace_updated before update on pending for each row when (new.queue_ms is not null)
  execute function pace_call();

-- Calls with limits that may begin now, locked, fair over what shares a limit (the look begins anywhere) and over
-- namespaces within it. p_organization null: all, as the dispatcher claims; p_full, p_org, p_toolsets, p_server,
-- p_free and p_server_max are those of claim_calls. Who has a limit's lock decides about it; others pass it over.
create function pick_paced(p_route smallint, p_organization uuid, p_namespace uuid, p_toolset text, p_tools text[],
  p_limit int, p_full uuid[], p_org uuid[], p_toolsets text[], p_server text[], p_free int[], p_server_max int)
returns table (namespace_id uuid, run_id uuid, n int) language plpgsql as $$
#variable_conflict use_column
declare
  at bigint := now_ms();
  pivot text := md5(random()::text);
  place text := pivot;
  org uuid := '00000000-0000-0000-0000-000000000000';
  wrapped boolean := false;
  c pending%rowtype;
  room int;
  free int;
  counted text;
  width bigint;
  got int;
begin
  for step in 1 .. 1000 loop
    exit when p_limit <= 0;
    if p_organization is null then
      select p.* into c from pending p where p.kind = 0 and p.route = 1 and p.slot is not null and p.claim_id is null
        and not p.gated and not p.deferred and not p.stopping and (p.slot, p.organization_id) > (place, org)
        order by p.slot, p.organization_id limit 1;
    else
      select p.* into c from pending p where p.kind = 0 and p.route = 0 and p.slot is not null and p.claim_id is null
        and not p.gated and not p.deferred and not p.stopping and p.organization_id = p_organization
        and p.slot > place order by p.slot limit 1;
    end if;
    if not found then
      exit when wrapped;
      wrapped := true; place := ''; org := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    place := c.slot; org := c.organization_id;
    exit when wrapped and place > pivot;
    continue when org = any (p_full) or (p_toolset is not null and c.toolset <> p_toolset)
      or (p_tools is not null and not exists (select from pending p where p.kind = 0 and p.route = p_route
        and p.slot = place and p.claim_id is null and not p.gated and not p.deferred and not p.stopping
        and p.organization_id = org and p.name = any (p_tools)));
    free := p_limit;
    if p_route = 1 then
      free := p_server_max;
      for k in 1 .. cardinality(p_org) loop
        if p_org[k] = org and p_toolsets[k] = c.toolset and p_server[k] = split_part(c.name, '.', 1) then
          free := p_free[k];
        end if;
      end loop;
    end if;
    room := least(p_limit, free);
    continue when room <= 0 or not pg_try_advisory_xact_lock(hashtextextended(org::text || place, 22));
    if c.pace ? 'slots' then
      select least(room, (c.pace ->> 'slots')::int - count(*)::int) into room from pending p
        where p.organization_id = org and p.slot = place and (p.claim_id is not null or p.deferred);
    end if;
    counted := null;
    if c.pace ? 'rate' and room > 0 then
      counted := md5(coalesce(c.toolset, '') || '/' || (c.pace ->> 'rate'));
      continue when not pg_try_advisory_xact_lock(hashtextextended(org::text || counted, 23));
      width := greatest(1, ((c.pace ->> 'per_ms')::bigint + 19) / 20);
      delete from rate_marks m where m.organization_id = org and m.rate = counted and m.bucket < at / width - 20;
      select least(room, (c.pace ->> 'rate_limit')::int - coalesce(sum(m.count), 0)::int) into room
        from rate_marks m where m.organization_id = org and m.rate = counted;
    end if;
    continue when room <= 0;
    return query
      with recursive spaces as (
        (select p.namespace_id from pending p where p.kind = 0 and p.route = p_route and p.slot = place
           and p.claim_id is null and not p.gated and not p.deferred and not p.stopping and p.organization_id = org
           and (p_namespace is null or p.namespace_id = p_namespace) order by p.namespace_id limit 1)
        union all
        select (select p.namespace_id from pending p where p.kind = 0 and p.route = p_route and p.slot = place
            and p.claim_id is null and not p.gated and not p.deferred and not p.stopping and p.organization_id = org
            and p_namespace is null and p.namespace_id > s.namespace_id order by p.namespace_id limit 1)
          from spaces s where s.namespace_id is not null
      ), found_spaces as (select s.namespace_id from spaces s where s.namespace_id is not null limit 1000),
      ranked as (
        select q.*, row_number() over (partition by q.namespace_id order by q.run_id, q.n) as rank, random() as lot
        from found_spaces s cross join lateral (
          select p.namespace_id, p.run_id, p.n from pending p
          where p.kind = 0 and p.route = p_route and p.slot = place and p.claim_id is null and not p.gated
            and not p.deferred and not p.stopping and p.organization_id = org and p.namespace_id = s.namespace_id
            and (p_toolset is null or p.toolset = p_toolset) and (p_tools is null or p.name = any (p_tools))
            and (p.available_at is null or p.available_at <= at)
          order by p.run_id, p.n limit room) q)
      select p.namespace_id, p.run_id, p.n from pending p
        where (p.namespace_id, p.run_id, p.n)
            in (select k.namespace_id, k.run_id, k.n from ranked k order by k.rank, k.lot limit room)
          and p.kind = 0 and p.claim_id is null and not p.gated and not p.deferred and not p.stopping
        for update skip locked;
    get diagnostics got = row_count;
    continue when got = 0;
    p_limit := p_limit - got;
    if p_route = 1 then  -- a later limit of the same server has so much less room
      p_org := org || p_org; p_toolsets := c.toolset || p_toolsets;
      p_server := split_part(c.name, '.', 1) || p_server; p_free := (free - got) || p_free;
      for k in 2 .. cardinality(p_org) loop
        if p_org[k] = org and p_toolsets[k] = c.toolset and p_server[k] = p_server[1] then p_free[k] := free - got; end if;
      end loop;
    end if;
    if counted is not null then
      insert into rate_marks as m (organization_id, rate, bucket, count) values (org, counted, at / width, got)
        on conflict on constraint rate_marks_pkey do update set count = m.count + excluded.count;
    end if;
  end loop;
end $$;

-- A failed attempt of the dispatcher ends, and the call is offered again after a pause.
create function retry_call(p_claim uuid, p_ns uuid, p_run uuid, p_n int, p_attempt smallint, p_after bigint)
returns boolean language sql as $$
  update pending p set claim_id = null, lease_until = null, available_at = now_ms() + p_after
    where p.namespace_id = p_ns and p.run_id = p_run and p.kind = 0 and p.n = p_n and p.attempt = p_attempt
      and p.claim_id = p_claim and not p.stopping
    returning true
$$;

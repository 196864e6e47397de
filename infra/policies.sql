-- Whose rows the request role sees, applied as rewind_owner after every upgrade. A table gets its policy from its
-- columns: a namespace, an organization, or both; one with neither is closed to the request role, or stands in
-- the list below. Tests attack every table (tests/infra/test_policies.py).
--
-- The settings stand in the transaction (sandbox/store/postgres/reach.py). Without them nothing is visible.
-- Loops, the batchers and the data plane are the system: their role sees all, and pays nothing for it.
-- FORCE: the owner is limited like everybody else, so a function with its rights is no way around. A migration
-- that must touch rows begins with `alter table … no force row level security`; this file forces it again.

create or replace function rewind_organization() returns uuid language sql stable parallel safe
  as $$ select nullif(current_setting('rewind.organization', true), '')::uuid $$;
create or replace function rewind_namespace() returns uuid language sql stable parallel safe
  as $$ select nullif(current_setting('rewind.namespace', true), '')::uuid $$;
create or replace function rewind_confined() returns boolean language sql stable parallel safe
  as $$ select coalesce(current_setting('rewind.confined', true), '') = 'on' $$;
comment on function rewind_confined() is 'The caller is a token: it sees its namespace only.';

do $$
declare
  -- Only keys and members see these; a token has no business there.
  not_for_tokens constant text[] := array['api_keys', 'tokens', 'secrets', 'webhook_endpoints', 'members', 'invitations',
    'audit_log'];
  -- Without tenant: nobody's rows, open to whom the grants say.
  open_to_grants constant text[] := array['clock', 'schema_migrations', 'workers'];
  t record;
  rule text;
  -- A token does not read the audit log, but what it does stands there.
  given text;
  org constant text := 'organization_id = (select rewind_organization())';
  -- Of a row that concerns no namespace, this is all zeros.
  ns constant text := '((select rewind_namespace()) is null and not (select rewind_confined())'
    ' or namespace_id in ((select rewind_namespace()), ''00000000-0000-0000-0000-000000000000''))';
begin
  for t in
    select c.oid as id, c.relname::text as name, c.relrowsecurity and c.relforcerowsecurity as secured,
      exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'organization_id' and a.attnotnull) as of_org,
      exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'namespace_id' and a.attnotnull) as of_ns
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') order by c.relname
  loop
    if t.name = any (open_to_grants) then continue; end if;
    rule := case
      when t.name = 'organizations' then 'id = (select rewind_organization())'
      when t.name = 'namespaces' then org || ' and (not (select rewind_confined()) or id = (select rewind_namespace()))'
      when t.of_org and t.of_ns then org || ' and ' || ns
      when t.of_org then org
      when t.of_ns then
        'case when (select rewind_namespace()) is not null then namespace_id = (select rewind_namespace()) '
        'else not (select rewind_confined()) and exists (select from namespaces n where n.id = namespace_id '
        'and n.organization_id = (select rewind_organization())) end'
      else 'false'
    end;
    given := rule;
    if t.name = any (not_for_tokens) then
      rule := rule || ' and not (select rewind_confined())';
      if t.name <> 'audit_log' then given := rule; end if;
    end if;
    -- A policy takes the table's strongest lock: what is right already is left alone.
    if t.secured and exists (select from pg_policy p where p.polrelid = t.id and p.polname = 'tenant'
      and obj_description(p.oid, 'pg_policy') = rule || '; given: ' || given) then continue; end if;
    execute format('alter table %I enable row level security, force row level security', t.name);
    execute format('drop policy if exists tenant on %I', t.name);
    execute format('drop policy if exists system on %I', t.name);
    execute format('create policy system on %I to rewind_api, rewind_worker, rewind_retention using (true) with check (true)',
      t.name);
    execute format('create policy tenant on %I to rewind_request using (%s) with check (%s)', t.name, rule, given);
    execute format('comment on policy tenant on %I is %L', t.name, rule || '; given: ' || given);
  end loop;
end $$;

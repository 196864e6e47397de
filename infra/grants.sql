-- Who may do what, applied as rewind_owner after every upgrade: all is taken back first, so this file is the
-- whole truth. Functions run with their caller's rights. A table that is missing here is closed to all.

revoke all on all tables in schema public from public, rewind_api, rewind_request, rewind_worker, rewind_retention,
  rewind_test;
revoke all on all functions in schema public from public, rewind_api, rewind_request, rewind_worker, rewind_retention,
  rewind_test;
grant execute on all functions in schema public to rewind_api, rewind_request, rewind_worker, rewind_retention;

-- Both planes. Journals are append-only: no right but these two on entries.
grant select, insert on entries to rewind_api, rewind_worker;
grant select on clock, schema_migrations to rewind_api, rewind_worker, rewind_retention;
grant select, insert, update, delete on pending to rewind_api, rewind_worker;
grant select, insert, update, delete on rate_marks to rewind_api;
grant select, insert, delete on signal_ids, held_events to rewind_api, rewind_worker;
grant select, insert, update on approvals to rewind_api, rewind_worker;
grant delete on approvals to rewind_api;
grant select, insert, update on quarantines to rewind_api, rewind_worker;
grant select, insert, update, delete on workers to rewind_api, rewind_worker;
grant select, insert, update, delete on sandbox_requests to rewind_api, rewind_worker;
grant select, insert on scripts, compiled_scripts to rewind_api;
grant select, insert, update on checked_scripts to rewind_api;
grant select on scripts to rewind_worker;
grant select, insert on compiled_scripts to rewind_worker;

-- Keys: both make them at first use; the control plane wraps them anew and destroys them.
grant select, insert on namespace_keys to rewind_api, rewind_worker;
grant update on namespace_keys to rewind_api;

-- Values: both put and name them; the collector is part of the control plane.
grant select, insert, update on blobs to rewind_api, rewind_worker;
grant select, insert on value_refs to rewind_api, rewind_worker;
grant delete on blobs to rewind_api;
grant select, delete on value_refs to rewind_retention;

-- The data plane executes runs that exist; it starts none and sees no credential.
grant select, update on runs, run_facts to rewind_worker;
grant select on namespaces, toolset_versions to rewind_worker;

-- The control plane.
-- What webhooks tell is recorded by the append that causes it.
grant select, insert, update, delete on events to rewind_api;
grant insert on events to rewind_worker;
-- So are the ends of children, which the dispatcher takes from there.
grant select, insert, delete, update (ident) on child_outbox to rewind_api;
grant select, insert on child_outbox to rewind_worker;
grant select, insert, update, delete on webhook_endpoints, deliveries to rewind_api;

grant select, insert, update, delete on replays to rewind_api;
-- Usage: written by triggers on behalf of whoever ends a run or stores a value.
grant select, insert, update, delete on usage_counters, usage_days, usage_deltas, quotas, quota_notices to rewind_api;
grant insert on usage_deltas to rewind_worker, rewind_retention;

-- People: the control plane's alone.
grant select, insert, update, delete on people, identities, passkeys, members, invitations, sessions, signups, resets,
  mails, login_failures to rewind_api;
grant select, insert, update, delete on sign_in_steps, sso_connections, organization_domains, recovery_codes to rewind_api;

grant select, insert on audit_log to rewind_api, rewind_retention;
grant select, insert on seals to rewind_api;
grant select, insert, update on seal_heads to rewind_api;
grant select, insert, update on runs, run_facts to rewind_api;
grant select, insert, update on organizations, namespaces, api_keys, tokens to rewind_api;
grant select, insert, delete on idempotency to rewind_api;
grant select, insert on toolset_versions, toolset_servers, workflow_versions to rewind_api;
grant select, insert, update, delete on workflows to rewind_api;
grant select, insert, update, delete on secrets to rewind_api;
grant select, insert, update, delete on toolsets to rewind_api;

grant select, insert, update, delete on bulk_cancels to rewind_api;

-- On behalf of a tenant: what the control plane may do to tenants' tables; row-level security says to whose rows. Not
-- to people and their membership, nor to what an organization may.
grant select on clock, schema_migrations, organizations to rewind_request;
-- Enough to lock its row, which orders what must not happen twice at once.
grant update (name) on organizations to rewind_request;
do $$
declare
  t record;
begin
  for t in
    select c.oid as id, p as privilege, c.relname as name
    from pg_class c cross join unnest(array['select', 'insert', 'update', 'delete']) p
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
      and has_table_privilege('rewind_api', c.oid, p)
      and c.relname not in ('organizations', 'members', 'invitations', 'sso_connections', 'organization_domains')
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname in ('organization_id', 'namespace_id', 'id')
        and (a.attname <> 'id' or c.relname = 'namespaces') and not a.attisdropped)
  loop
    execute format('grant %s on %I to rewind_request', t.privilege, t.name);
  end loop;
end $$;

-- Retention deletes journals and redacts values, with the audit of it; webhook messages made of them are made anew.
grant select, update, delete on entries to rewind_retention;
grant select, update, delete on runs, run_facts to rewind_retention;
grant select, delete on pending, approvals, signal_ids, held_events, child_outbox, quarantines, idempotency, replays, scripts, compiled_scripts,
  checked_scripts, sandbox_requests, bulk_cancels, seals, seal_heads, tokens to rewind_retention;
grant select on namespaces, namespace_keys to rewind_retention;
grant update (erased_at) on namespaces to rewind_retention;
grant select, update (touched_at) on blobs to rewind_retention;
grant select, update (body) on events to rewind_retention;
grant select, update (next_at) on deliveries to rewind_retention;
grant insert on audit_log to rewind_retention;

-- Tests have both planes by membership, and move time.
grant update on clock to rewind_test;

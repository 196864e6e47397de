-- The database roles, before the migrations. They belong to the whole cluster, where another database's
-- upgrade may make them at the same moment. Whoever upgrades needs CREATEROLE, or the roles made beforehand
-- and granted; processes log in with their own user and SET ROLE.
--
--   rewind_owner      owns every table and function; used by migrations only
--   rewind_api        the control plane: its loops, its appends, and what comes before a caller is known
--   rewind_request    the control plane on behalf of one tenant, whose rows are all that it sees
--   rewind_worker     the data plane: knows no key, token or secret
--   rewind_retention  the only one that may delete or change journal entries
--   rewind_test       both planes, and the clock: for tests

do $$
declare
  wanted text;
  right_to_switch text := case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
begin
  foreach wanted in array array['rewind_owner', 'rewind_api', 'rewind_request', 'rewind_worker', 'rewind_retention', 'rewind_test'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      begin
        execute format('create role %I nologin', wanted);
      exception when duplicate_object or unique_violation then null;
      end;
    end if;
    if not pg_has_role(current_user, wanted, right_to_switch) then
      execute format('grant %I to current_user', wanted);
    end if;
  end loop;
  foreach wanted in array array['rewind_api', 'rewind_worker'] loop
    if not pg_has_role('rewind_test', wanted, 'MEMBER') then
      execute format('grant %I to rewind_test', wanted);
    end if;
  end loop;
  if not has_schema_privilege('rewind_owner', 'public', 'CREATE') then
    grant create on schema public to rewind_owner;
  end if;
end $$;

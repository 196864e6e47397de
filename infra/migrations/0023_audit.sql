-- The audit log writes itself: triggers on the tables that matter record who changed what, in the transaction that
-- does. Who it is stands in the transaction's settings (sandbox/store/postgres/reach.py).

-- UUIDv7 of this moment, as tenancy/ids.py makes them.
create function audit_id(p_at bigint) returns uuid language sql volatile as $$
  select encode(set_byte(overlay(uuid_send(gen_random_uuid()) placing substring(int8send(p_at) from 3) from 1 for 6),
    6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112), 'hex')::uuid
$$;

create function record_act(p_org uuid, p_action text, p_target text, p_before jsonb, p_after jsonb,
  p_person uuid default null, p_ip text default null) returns void language sql as $$
  insert into audit_log (id, organization_id, at, actor_kind, actor_id, action, target, ip, before, after)
  select audit_id(now), p_org, now,
    case when p_person is not null then 'member' else coalesce(nullif(current_setting('rewind.actor_kind', true), ''), 'system') end,
    coalesce(p_person::text, nullif(current_setting('rewind.actor_id', true), ''), 'rewind'),
    p_action, p_target, coalesce(p_ip, nullif(current_setting('rewind.ip', true), '')), p_before, p_after
  from now_ms() now
$$;
comment on function record_act is 'A line of the audit log, of whoever the settings name, or of this person.';

-- Arguments: the word of the table's things, the column that names one, and the columns that are shown. Changes of
-- others (when it was last used) are nobody's act.
create function audit_change() returns trigger language plpgsql as $$
declare
  was jsonb := case when tg_op = 'INSERT' then null else to_jsonb(old) end;
  is_now jsonb := case when tg_op = 'DELETE' then null else to_jsonb(new) end;
  whole jsonb := coalesce(is_now, was);
  word text := tg_argv[0];
  verb text;
  gone jsonb;
  come jsonb;
begin
  select jsonb_object_agg(c, was -> c), jsonb_object_agg(c, is_now -> c) into gone, come
    from unnest(string_to_array(tg_argv[2], ' ')) c where was is null or is_now is null or was -> c is distinct from is_now -> c;
  if tg_op = 'UPDATE' then
    verb := case
      when was ->> 'revoked_at' is null and is_now ->> 'revoked_at' is not null then 'revoke'
      when was ->> 'suspended_at' is null and is_now ->> 'suspended_at' is not null then 'suspend'
      when was ->> 'suspended_at' is not null and is_now ->> 'suspended_at' is null then 'resume'
      when was ->> 'settled_at' is null and is_now ->> 'settled_at' is not null then 'settle'
      when coalesce(was ->> 'secret_sha256', was ->> 'secret') is distinct from
        coalesce(is_now ->> 'secret_sha256', is_now ->> 'secret') then 'rotate'
      when was ->> 'sealed' is distinct from is_now ->> 'sealed' then 'update'
      when gone is not null then 'update'
    end;
    if verb is null then return null; end if;
  else
    verb := case tg_op when 'INSERT' then 'create' else 'delete' end;
  end if;
  perform record_act(coalesce(whole ->> 'organization_id', whole ->> 'id')::uuid, word || '.' || verb,
    word || ':' || (whole ->> tg_argv[1]), case when was is not null then gone end, case when is_now is not null then come end);
  return null;
end $$;

create trigger audited after insert or update or delete on api_keys for each row
  execute function audit_change('key', 'id', 'name prefix scopes allow_ips expires_at revoked_at');
create trigger audited after insert or update or delete on tokens for each row
  execute function audit_change('token', 'id', 'name prefix namespace_id scopes narrow expires_at revoked_at');
create trigger audited after insert or update or delete on secrets for each row
  execute function audit_change('secret', 'name', 'name namespace_id');
create trigger audited after insert or update or delete on toolsets for each row
  execute function audit_change('toolset', 'name', 'name digest');
create trigger audited after insert or update or delete on workflows for each row
  execute function audit_change('workflow', 'name', 'name digest');
create trigger audited after insert or update or delete on webhook_endpoints for each row
  execute function audit_change('webhook', 'id', 'url events namespaces labels disabled_at disabled_reason');
-- What else happens to a namespace is recorded by whoever does it.
create trigger audited after insert or update of labels on namespaces for each row
  execute function audit_change('namespace', 'name', 'name labels');
create trigger audited after insert or update or delete on members for each row
  execute function audit_change('member', 'person_id', 'role');
create trigger audited after insert or update or delete on invitations for each row
  execute function audit_change('invitation', 'id', 'email role settled_at');

create trigger audited after insert or update or delete on quotas for each row
  execute function audit_change('quotas', 'namespace_id', 'limits');
create trigger audited after insert or update on organizations for each row
  execute function audit_change('organization', 'id', 'name plan limits suspended_at deleted_at');

-- What a person does to the own account is told to every organization that the person is a member of.
create function audit_person(p_person uuid, p_action text, p_ip text, p_after jsonb) returns void language sql as $$
  select record_act(m.organization_id, p_action, 'person:' || p_person, null, p_after, p_person, p_ip)
  from members m where m.person_id = p_person
$$;

create function audit_sign_in() returns trigger language plpgsql as $$
begin
  perform audit_person(new.person_id, 'person.sign_in', new.ip, jsonb_build_object('method', new.method));
  return null;
end $$;
create trigger audited after insert on sessions for each row execute function audit_sign_in();

create function audit_password() returns trigger language plpgsql as $$
begin
  perform audit_person(new.id, 'person.change_password', nullif(current_setting('rewind.ip', true), ''), null);
  return null;
end $$;
create trigger audited after update of password_hash on people for each row
  when (old.password_hash is distinct from new.password_hash) execute function audit_password();

drop index audit_log_newest;
create index audit_log_newest on audit_log (organization_id, id desc);

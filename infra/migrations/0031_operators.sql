-- What operators do: suspend an organization, look into one for its customer, ask a worker to leave. Each leaves a
-- line in the audit log, of the customer where there is one, else of the deployment (organization: all zeros).

alter table organizations add column suspended_reason text;
comment on column organizations.suspended_reason is 'Told to its members and callers.';

alter table namespaces add column suspended_with_organization boolean not null default false;
comment on column namespaces.suspended_with_organization is 'Only the organization''s resumption resumes it.';

alter table api_keys add column operator text;
comment on column api_keys.operator is 'An operator who looks into the organization with it: reads only, and each read is audited.';

alter table workers add column version text not null default '', add column drain_asked_at bigint;
comment on column workers.drain_asked_at is 'It sees that with its next heartbeat, and leaves as on SIGTERM.';

drop trigger audited on organizations;
create trigger audited after insert or update on organizations for each row
  execute function audit_change('organization', 'id', 'name plan limits suspended_at suspended_reason deleted_at');
drop trigger audited on api_keys;
create trigger audited after insert or update or delete on api_keys for each row
  execute function audit_change('key', 'id', 'name prefix scopes allow_ips expires_at revoked_at operator');

-- All of its namespaces freeze, as when each is suspended; those that are suspended already stay so afterwards.
create function suspend_organization(p_org uuid, p_reason text) returns boolean language plpgsql as $$
begin
  update organizations set suspended_at = now_ms(), suspended_reason = p_reason where id = p_org and suspended_at is null;
  if not found then return false; end if;
  update namespaces set suspended_at = now_ms(), suspended_with_organization = true
    where organization_id = p_org and suspended_at is null;
  perform 1 from runs r where r.owner is not null and r.namespace_id in (
      select n.id from namespaces n where n.organization_id = p_org and n.suspended_with_organization)
    order by r.namespace_id, r.run_id for no key update;
  update runs r set owner = null, ready = (r.status = 0 and r.last_event > r.delivered)
    where r.owner is not null and r.namespace_id in (
      select n.id from namespaces n where n.organization_id = p_org and n.suspended_with_organization);
  return true;
end $$;
comment on function suspend_organization is 'False: it is suspended already.';

create function resume_organization(p_org uuid) returns boolean language plpgsql as $$
begin
  update organizations set suspended_at = null, suspended_reason = null where id = p_org and suspended_at is not null;
  if not found then return false; end if;
  update namespaces set suspended_at = null, suspended_with_organization = false
    where organization_id = p_org and suspended_with_organization;
  return true;
end $$;
comment on function resume_organization is 'False: it is not suspended.';

-- A caller is believed for up to a second: what it makes meanwhile is frozen with the rest.
create function hold_namespace() returns trigger language plpgsql as $$
begin
  if exists (select from organizations o where o.id = new.organization_id and o.suspended_at is not null) then
    new.suspended_at := now_ms();
    new.suspended_with_organization := true;
  end if;
  return new;
end $$;
create trigger held before insert on namespaces for each row execute function hold_namespace();

-- What a receiver answers may repeat what it was told: it is sealed like the message.
alter table deliveries drop column response_body, add column response_body bytea;
comment on column deliveries.response_body is 'The beginning of the answer, sealed under the namespace''s key.';

-- Gaps of the audit log -------------------------------------------------------------------------------

-- Who decides an approval: the actor stands in the transaction of the decision. What expires is nobody's act.
create function audit_approval() returns trigger language plpgsql as $$
begin
  perform record_act(new.organization_id, case new.status when 1 then 'approval.approve' else 'approval.deny' end,
    'run:' || new.run_id, jsonb_build_object('status', 'pending'),
    jsonb_build_object('status', case new.status when 1 then 'approved' else 'denied' end, 'call', new.call, 'tool', new.tool));
  return null;
end $$;
create trigger audited after update of status on approvals for each row
  when (old.status = 0 and new.status in (1, 2)) execute function audit_approval();

-- What proves who a person is.
create function audit_proof() returns trigger language plpgsql as $$
declare
  ip text := nullif(current_setting('rewind.ip', true), '');
begin
  if tg_table_name = 'people' then
    perform audit_person(new.id, case when new.totp_since is null then 'person.end_totp' else 'person.begin_totp' end, ip, null);
  elsif tg_table_name = 'passkeys' then
    perform audit_person(coalesce(new.person_id, old.person_id),
      case tg_op when 'INSERT' then 'person.add_passkey' else 'person.remove_passkey' end, ip,
      jsonb_build_object('name', coalesce(new.name, old.name)));
  else
    perform audit_person(coalesce(new.person_id, old.person_id),
      case tg_op when 'INSERT' then 'person.link_provider' else 'person.unlink_provider' end, ip,
      jsonb_build_object('issuer', coalesce(new.issuer, old.issuer)));
  end if;
  return null;
end $$;
create trigger audited_totp after update of totp_since on people for each row
  when (old.totp_since is distinct from new.totp_since) execute function audit_proof();
create trigger audited after insert or delete on passkeys for each row execute function audit_proof();
create trigger audited after insert or delete on identities for each row execute function audit_proof();

-- Months are those of UTC, whatever the time zone of the session is.
create or replace function quota_refusal(p_quota text, p_limit bigint, p_used bigint, p_monthly boolean) returns jsonb
language sql stable as $$
  select jsonb_build_object('quota', p_quota, 'limit', p_limit, 'used', p_used, 'now', now_ms(), 'resets_at', case when p_monthly then
    (extract(epoch from (date_trunc('month', today()::timestamp) + interval '1 month') at time zone 'UTC') * 1000)::bigint end)
$$;

-- Signed out, here or from elsewhere, or by a new password; what expires is nobody's act.
create function audit_sign_out() returns trigger language plpgsql as $$
begin
  -- By whoever did it: an admin who removes a provider signs its people out.
  perform record_act(m.organization_id, 'person.sign_out', 'person:' || old.person_id, null,
    jsonb_build_object('method', old.method, 'session', old.id),
    case when coalesce(current_setting('rewind.actor_id', true), '') = '' then old.person_id end)
  from members m where m.person_id = old.person_id;
  return null;
end $$;
create trigger audited_end after delete on sessions for each row when (old.expires_at > now_ms()) execute function audit_sign_out();

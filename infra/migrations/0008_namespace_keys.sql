-- The key of each namespace, under which entry bodies, values, progress, quarantine reports and the questions to
-- the sandbox are sealed. Without its key nothing of a namespace can be read: destroying it erases all of that.

create table namespace_keys (
  namespace_id uuid primary key,
  wrapped bytea,
  created_at bigint not null,
  destroyed_at bigint,
  check ((wrapped is null) = (destroyed_at is not null))
);
comment on table namespace_keys is 'One row per namespace, made at first use and never deleted: a destroyed key is not '
  'made again. Small enough for backups of its own, which should be kept for less time than the others.';
comment on column namespace_keys.wrapped is 'The key under the data master key (REWIND_DATA_KEY_FILE), whose mark it '
  'begins with; null: destroyed.';

-- Its runs are taken from their owners, who must not go on with a key that they still have in memory; nobody is
-- offered a call whose arguments cannot be read, or told of events whose messages cannot.
create function erase_namespace(p_ns uuid) returns bigint language plpgsql as $$
declare
  stopped bigint;
begin
  insert into namespace_keys (namespace_id, created_at, destroyed_at) values (p_ns, now_ms(), now_ms())
    on conflict (namespace_id) do update set wrapped = null,
      destroyed_at = coalesce(namespace_keys.destroyed_at, excluded.destroyed_at);
  perform 1 from runs where namespace_id = p_ns and status = 0 order by run_id for no key update;
  update runs set status = 5, owner = null, ready = false where namespace_id = p_ns and status = 0;
  get diagnostics stopped = row_count;
  update run_facts set status = 5 where namespace_id = p_ns and status = 0;
  delete from pending where namespace_id = p_ns;
  delete from deliveries where namespace_id = p_ns;
  delete from events where namespace_id = p_ns;
  delete from approvals where namespace_id = p_ns;
  return stopped;
end $$;
comment on function erase_namespace is 'How many active runs that stopped: they are quarantined, without a report.';

-- What happens to journals beside and after running: lists and their filters, retention, deletion, redaction,
-- suspension and deletion of namespaces, and the order of seals.

-- Lists ------------------------------------------------------------------------------------------------

-- What filters and searches find a run by, as lexemes of one index. Each begins with the namespace's last digits,
-- so that one tenant's runs do not make another's searches slow; equality is then checked on the columns.
create function run_terms(p_ns uuid, p_labels jsonb, p_script text, p_toolset text, p_toolset_digest text,
  p_workflow text) returns tsvector language sql immutable parallel safe as $$
  with said as (
    select l.key, l.value from jsonb_each_text(p_labels) l
    union all select null, p_toolset where p_toolset is not null
    union all select null, p_workflow where p_workflow is not null)
  select array_to_tsvector(array(
    select distinct right(p_ns::text, 12) || '/' || term from (
      select 'l:' || key || '=' || value as term from said where key is not null
      union all select 's:' || p_script
      union all select 't:' || p_toolset where p_toolset is not null
      union all select 't:' || p_toolset || '@' || p_toolset_digest where p_toolset is not null
      union all select 'f:' || p_workflow where p_workflow is not null
      union all select 'w:' || word from said,
        regexp_split_to_table(lower(coalesce(key, '') || ' ' || value), '[^[:alnum:]]+') word where word <> ''
    ) terms where term is not null))
$$;

-- p_exact: terms as above, all of which match; p_q: words, each the beginning of one that the run has.
create function run_query(p_ns uuid, p_exact text[], p_q text) returns tsquery language sql immutable parallel safe as $$
  select string_agg(lexeme, ' & ')::tsquery from (
    select '''' || right(p_ns::text, 12) || '/' || replace(replace(term, '\', '\\'), '''', '''''') || '''' as lexeme
      from unnest(p_exact) term
    union all select '''' || right(p_ns::text, 12) || '/w:' || word || ''':*'
      from regexp_split_to_table(lower(p_q), '[^[:alnum:]]+') word where word <> '') lexemes
$$;

alter table run_facts add column terms tsvector
  generated always as (run_terms(namespace_id, labels, script, toolset, toolset_digest, workflow)) stored;
comment on column run_facts.terms is 'See run_terms.';
create index run_facts_terms on run_facts using gin (terms);
create index run_facts_started on run_facts (namespace_id, started_at);
-- What retention looks through, one namespace after the other.
create index run_facts_ended on run_facts (namespace_id, ended_at) where ended_at is not null;

create table bulk_cancels (
  namespace_id uuid not null,
  id uuid not null,
  organization_id uuid not null,
  filter jsonb not null,
  reason text,
  actor_kind text not null,
  actor_id text not null,
  before uuid not null,
  created_at bigint not null,
  primary key (namespace_id, id)
);
comment on table bulk_cancels is 'POST /runs/cancel with more runs than one request cancels: the scheduler goes on, newest first.';
comment on column bulk_cancels.before is 'Runs with smaller ids are still to be looked at; what was started after the request is not concerned.';

-- Seals have numbers -----------------------------------------------------------------------------------

alter table seal_heads add column position bigint not null default 0;
alter table seals add column position bigint not null default 0;
comment on column seals.position is 'Place in the chain of the namespace, from 1.';
create unique index seals_chain on seals (namespace_id, position);

create or replace function seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries int) returns seals
language plpgsql as $$
declare
  known seals%rowtype;
  head seal_heads%rowtype;
begin
  insert into seal_heads (namespace_id, link) values (p_ns, '') on conflict do nothing;
  select * into head from seal_heads where namespace_id = p_ns for update;
  select * into known from seals where namespace_id = p_ns and run_id = p_run;
  if found then return known; end if;
  insert into seals (namespace_id, run_id, root, entries, sealed_at, previous, position)
    values (p_ns, p_run, p_root, p_entries, now_ms(), nullif(head.link, ''), head.position + 1) returning * into known;
  update seal_heads set position = head.position + 1, link = sha256(convert_to(
      E'rewind/1\n' || encode(head.link, 'hex') || E'\n' || p_run || E'\n' || encode(p_root, 'hex'), 'UTF8'))
    where namespace_id = p_ns;
  update run_facts set sealed = true where namespace_id = p_ns and run_id = p_run;
  return known;
end $$;

-- Namespaces -------------------------------------------------------------------------------------------

alter table namespaces
  add column retention_days int check (retention_days between 1 and 3650),
  add column deleted_at bigint,
  add column erased_at bigint;
comment on column namespaces.retention_days is 'How long runs are kept after their end; null: as the deployment says (30 days).';
comment on column namespaces.deleted_at is 'Its name is free again: the row is called ~ and its id, which no request can name.';
comment on column namespaces.erased_at is 'Nothing of it is left but this row and its destroyed key.';
create index namespaces_erasing on namespaces (deleted_at) where deleted_at is not null and erased_at is null;

-- Deletion of runs (by rewind_retention) ---------------------------------------------------------------

-- Ended and sealed runs go with all that is theirs; seals stay, they hold digests only. So do the idempotency keys
-- that started them: the same key again finds no run, and starts none. Values go when the collector finds that no
-- run names them.
create function delete_runs(p_ns uuid, p_runs uuid[]) returns int language plpgsql as $$
declare
  gone uuid[];
begin
  select array_agg(f.run_id) into gone from (
    select f.run_id from run_facts f where f.namespace_id = p_ns and f.run_id = any (p_runs) and f.ended_at is not null
      and f.sealed and not exists (
        select from child_outbox c where c.namespace_id = f.namespace_id and c.run_id = f.run_id)
    order by f.run_id for update) f;
  if gone is null then return 0; end if;
  perform drop_runs(p_ns, gone);
  return cardinality(gone);
end $$;
comment on function delete_runs is 'How many were deleted: those that have ended, are sealed, and whose end was told to a run that awaits it.';

create function drop_runs(p_ns uuid, p_runs uuid[]) returns void language plpgsql as $$
begin
  delete from entries where namespace_id = p_ns and run_id = any (p_runs);
  delete from value_refs where namespace_id = p_ns and run_id = any (p_runs);
  delete from pending where namespace_id = p_ns and run_id = any (p_runs);
  delete from approvals where namespace_id = p_ns and run_id = any (p_runs);
  delete from child_outbox where namespace_id = p_ns and run_id = any (p_runs);
  delete from signal_ids where namespace_id = p_ns and run_id = any (p_runs);
  delete from held_events where namespace_id = p_ns and run_id = any (p_runs);
  delete from quarantines where namespace_id = p_ns and run_id = any (p_runs);
  delete from replays where namespace_id = p_ns and run_id = any (p_runs);
  delete from run_facts where namespace_id = p_ns and run_id = any (p_runs);
  delete from runs where namespace_id = p_ns and run_id = any (p_runs);
end $$;

-- Namespaces: p_limit of those after p_after, each with its oldest runs past their time, at most p_entries entries
-- of a namespace at once (or one run). Runs that a fork is being made from stay until it is made.
create function expired_runs(p_after uuid, p_limit int, p_default_days int, p_runs int, p_entries bigint)
returns table (namespace_id uuid, runs uuid[]) language sql stable as $$
  select n.id, r.runs from (
    select id, coalesce(retention_days, p_default_days) as days from namespaces
    where id > p_after order by id limit p_limit) n
  left join lateral (
    select array_agg(o.run_id) as runs from (
      select f.run_id, row_number() over w as place, sum(r.next_seq) over w as entries
      from (select * from run_facts f where f.namespace_id = n.id and f.ended_at < now_ms() - n.days * 86400000::bigint
          and f.sealed order by f.ended_at, f.run_id limit p_runs) f
        join runs r on r.namespace_id = f.namespace_id and r.run_id = f.run_id
      where not exists (select from run_facts d join runs c on c.namespace_id = d.namespace_id and c.run_id = d.run_id
        where d.namespace_id = f.namespace_id and d.parent ->> 'run' = f.run_id::text and c.forking and c.status in (0, 5))
      window w as (order by f.ended_at, f.run_id)) o
    where o.place = 1 or o.entries <= p_entries) r on true
  order by n.id
$$;

create index idempotency_age on idempotency (created_at);

-- Suspension and deletion of namespaces ---------------------------------------------------------------

-- Nothing of it proceeds: owners lose its runs, and nobody claims them, or their calls, until it is resumed.
-- What settles meanwhile (outcomes of begun calls, timers, deadlines) is recorded and delivered then.
create function suspend_namespace(p_ns uuid) returns boolean language plpgsql as $$
begin
  update namespaces set suspended_at = now_ms() where id = p_ns and suspended_at is null;
  if not found then return false; end if;
  perform 1 from runs where namespace_id = p_ns and owner is not null order by run_id for no key update;
  update runs set owner = null, ready = (status = 0 and last_event > delivered)
    where namespace_id = p_ns and owner is not null;
  return true;
end $$;

-- Everything stops at once and can be read by nobody: the key is destroyed. Rows are deleted afterwards.
create function delete_namespace(p_organization uuid, p_ns uuid) returns boolean language plpgsql as $$
begin
  update namespaces set name = '~' || id, labels = '{}', deleted_at = now_ms(), suspended_at = coalesce(suspended_at, now_ms())
    where id = p_ns and organization_id = p_organization and deleted_at is null;
  if not found then return false; end if;
  update tokens set revoked_at = now_ms() where namespace_id = p_ns and revoked_at is null;
  delete from secrets where organization_id = p_organization and namespace_id = p_ns;
  perform erase_namespace(p_ns);
  delete from approvals where namespace_id = p_ns;
  delete from child_outbox where namespace_id = p_ns;
  return true;
end $$;

-- Some of what is left of a deleted namespace (by rewind_retention): at most p_runs runs at once, then the rest.
-- True: nothing is left. Again after the last process that still had its name or key cached has let go of it.
create function erase_some(p_ns uuid, p_runs int) returns boolean language plpgsql as $$
declare
  found_runs uuid[];
begin
  select array_agg(r.run_id) into found_runs
    from (select run_id from runs where namespace_id = p_ns order by run_id limit p_runs for update) r;
  if found_runs is not null then
    perform drop_runs(p_ns, found_runs);
    return false;
  end if;
  delete from run_facts where namespace_id = p_ns;
  delete from scripts where namespace_id = p_ns;
  delete from compiled_scripts where namespace_id = p_ns;
  delete from checked_scripts where namespace_id = p_ns;
  delete from idempotency where namespace_id = p_ns;
  delete from sandbox_requests where namespace_id = p_ns;
  delete from bulk_cancels where namespace_id = p_ns;
  delete from value_refs where namespace_id = p_ns;
  delete from seals where namespace_id = p_ns;
  delete from seal_heads where namespace_id = p_ns;
  delete from tokens where namespace_id = p_ns;
  update blobs set touched_at = 0 where namespace_id = p_ns;
  update namespaces set erased_at = now_ms() where id = p_ns and deleted_at < now_ms() - 120000;
  return found;
end $$;

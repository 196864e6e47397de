-- Seals: the digest of each ended run's journal, in a hash-chained log per namespace. Written after the fact by
-- whoever comes first; never in the transaction of an append.

alter table run_facts add column sealed boolean not null default false;
comment on column run_facts.sealed is 'The run has ended and its seal is in seals.';
create index run_facts_unsealed on run_facts (ended_at) where ended_at is not null and not sealed;

create table seal_heads (
  namespace_id uuid primary key,
  link bytea not null
);
comment on table seal_heads is 'The last link of each namespace''s chain; its row lock orders the seals.';

create table seals (
  namespace_id uuid not null,
  run_id uuid not null,
  root bytea not null,
  entries int not null,
  sealed_at bigint not null,
  previous bytea,
  primary key (namespace_id, run_id)
);
comment on column seals.previous is 'The link before this one; null: the first of its namespace. The link of a seal is the '
  'SHA-256 of "rewind/1\n" and previous, run id and root, joined by "\n" (digests in hex, previous empty for the first).';

create function seal_run(p_ns uuid, p_run uuid, p_root bytea, p_entries int) returns seals language plpgsql as $$
declare
  known seals%rowtype;
  head seal_heads%rowtype;
begin
  insert into seal_heads (namespace_id, link) values (p_ns, '') on conflict do nothing;
  select * into head from seal_heads where namespace_id = p_ns for update;
  select * into known from seals where namespace_id = p_ns and run_id = p_run;
  if found then return known; end if;
  insert into seals (namespace_id, run_id, root, entries, sealed_at, previous)
    values (p_ns, p_run, p_root, p_entries, now_ms(), nullif(head.link, '')) returning * into known;
  update seal_heads set link = sha256(convert_to(
      E'rewind/1\n' || encode(head.link, 'hex') || E'\n' || p_run || E'\n' || encode(p_root, 'hex'), 'UTF8'))
    where namespace_id = p_ns;
  update run_facts set sealed = true where namespace_id = p_ns and run_id = p_run;
  return known;
end $$;
comment on function seal_run is 'Sealing again answers the seal that is there.';

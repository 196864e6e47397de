-- Big values in the object store: when each was last put, and which runs name it. What no run names and nobody
-- has put for a day is deleted there, with its row.

create table blobs (
  namespace_id uuid not null,
  sha256 bytea not null,
  touched_at bigint not null,
  primary key (namespace_id, sha256)
);
comment on table blobs is 'Written before the object is, so that no object lacks its row. The collector holds the row '
  'while it deletes the object: whoever puts the same value waits, and puts it after that.';
comment on column blobs.touched_at is 'When the value was last put, or last found to be named by a run.';
create index blobs_touched on blobs (touched_at);

create table value_refs (
  namespace_id uuid not null,
  sha256 bytea not null,
  run_id uuid not null,
  primary key (namespace_id, sha256, run_id)
);
comment on table value_refs is 'Written in the transaction of the append that names the value.';
create index value_refs_run on value_refs (namespace_id, run_id);

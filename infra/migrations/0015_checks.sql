-- What the type-checker said of a script and a toolset, so that a known pair costs nothing to start.

create table checked_scripts (
  namespace_id uuid not null,
  script text collate "C" not null,
  toolset_digest text collate "C" not null,
  epoch smallint not null,
  toolset text collate "C",
  checker text not null,
  input_type text,
  output_type text,
  input_schema text not null,
  warnings text not null,
  checked_at bigint not null,
  primary key (namespace_id, script, toolset_digest, epoch)
);
comment on table checked_scripts is 'Scripts without errors only: a refused script is not kept.';
comment on column checked_scripts.toolset_digest is 'Empty: checked without tools.';
comment on column checked_scripts.toolset is '`name@digest` as it was first checked; the name says nothing about the types.';
comment on column checked_scripts.checker is 'Version of the checker: what another one said is checked again.';
comment on column checked_scripts.input_schema is 'JSON Schema of main''s input, from its type. JSON text, which may hold U+0000 escaped.';
comment on column checked_scripts.warnings is 'Diagnostics, a JSON array.';
create index scripts_listed on scripts (namespace_id, created_at desc, digest desc);

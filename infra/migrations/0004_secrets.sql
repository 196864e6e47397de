-- What customers give us to present to their servers. The data plane has no right on these tables.

create table secrets (
  organization_id uuid not null,
  namespace_id uuid not null,
  name text collate "C" not null,
  sealed bytea not null,
  created_at bigint not null,
  updated_at bigint not null,
  primary key (organization_id, namespace_id, name)
);
comment on column secrets.namespace_id is 'All zeros for a secret of the whole organization.';
comment on column secrets.sealed is 'AES-GCM under the deployment''s secret key; bound to organization, namespace and name.';

create table toolset_servers (
  organization_id uuid not null,
  name text collate "C" not null,
  digest text collate "C" not null,
  sealed bytea not null,
  created_at bigint not null,
  primary key (organization_id, name, digest)
);
comment on table toolset_servers is 'Addresses and headers of the servers of a toolset version: apart from '
  'toolset_versions, which the data plane reads.';

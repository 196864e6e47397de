-- A purge that has begun cannot be undone: what it erased is gone, so nobody gets the rest back without it.
alter table organizations add column purging_at bigint;
comment on column organizations.purging_at is 'When its purge began: from then on it cannot be restored.';

-- Whoever rotates a key and is not told the answer rotates it again. The secret that everybody uses is then the one
-- before the one that nobody has seen, and must work on for as long as was said.
alter table api_keys add column older_sha256 bytea unique, add column older_until bigint;
comment on column api_keys.older_sha256 is 'The secret before the one in previous_sha256, of a key rotated twice within the overlap; it works until older_until.';

-- The end of a child is news again for each call that it gets, also while the last news of it is being handled: who
-- has handled one has not handled the next, and deletes only what it has read.

alter table child_outbox add column ident uuid not null default gen_random_uuid();
comment on column child_outbox.ident is 'Another one each time that there is something to tell.';

-- From here on the child has the call. One that has ended by now is put into the outbox again.
create or replace function hold_call(p_ns uuid, p_run uuid, p_n int, p_child uuid) returns void language sql as $$
  update pending set claim_id = p_child, lease_until = null
    where namespace_id = p_ns and run_id = p_run and kind = 0 and n = p_n;
  insert into child_outbox select f.namespace_id, f.run_id, false, f.ended_at from run_facts f
    where f.namespace_id = p_ns and f.run_id = p_child and f.ended_at is not null
    on conflict (namespace_id, run_id, orphaned) do update set ident = excluded.ident;
$$;

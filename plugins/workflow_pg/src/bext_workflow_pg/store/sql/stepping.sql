-- What holds for one transaction of a step, whatever session it is in.
-- name: settings
SELECT set_config('synchronous_commit', $1, true), set_config('statement_timeout', $2, true),
    set_config('idle_in_transaction_session_timeout', $2, true);

-- The plan of the append is that of the commits' own connections.
-- name: savepoint
SAVEPOINT checkpoint; SET LOCAL enable_seqscan = off; SET LOCAL jit = off;

-- name: back
ROLLBACK TO SAVEPOINT checkpoint;

-- name: lock
SELECT 1 FROM runs WHERE rid = $1 FOR UPDATE;

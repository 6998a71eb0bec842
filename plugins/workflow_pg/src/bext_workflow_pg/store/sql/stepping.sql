-- What holds for one transaction of a step, whatever session it is in.
-- name: settings
SELECT set_config('synchronous_commit', $1, true), set_config('statement_timeout', $2, true),
    set_config('idle_in_transaction_session_timeout', $2, true);

-- From here on it is the append: its plan is that of the commits' own connections, and so are its bounds. A client that
-- is lost must not hold the run's row for as long as a step may take.
-- name: savepoint
SAVEPOINT checkpoint; SET LOCAL enable_seqscan = off; SET LOCAL jit = off; SET LOCAL statement_timeout = '14s'; SET LOCAL
    idle_in_transaction_session_timeout = '30s';

-- name: back
ROLLBACK TO SAVEPOINT checkpoint;

-- name: lock
SELECT 1 FROM runs WHERE rid = $1 FOR UPDATE;

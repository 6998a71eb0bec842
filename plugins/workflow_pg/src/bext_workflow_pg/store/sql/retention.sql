-- One at a time in this schema, until the transaction ends; whoever comes second goes without.
-- name: alone
SELECT pg_try_advisory_xact_lock(hashtextextended('bext-workflow retention ' || current_schema(), 0));

-- The topmost runs of families that may go, those first that have ended longest ago.
-- name: removable
SELECT rid, run_id FROM runs AS top
WHERE status = $1 AND ended_at < $2 AND root IS NULL
    AND owner IS NULL AND wake_at IS NULL AND incidents = 0
    AND NOT EXISTS (
        SELECT 1 FROM runs AS below WHERE below.root = top.run_id
            AND (below.ended_at IS NULL OR below.owner IS NOT NULL OR below.wake_at IS NOT NULL OR below.incidents > 0)
    )
ORDER BY ended_at LIMIT $3;

-- The families of these topmost runs, as they stand now that nobody else changes them.
-- name: families
SELECT coalesce(root, run_id) AS top, rid,
    ended_at IS NOT NULL AND owner IS NULL AND wake_at IS NULL AND incidents = 0 AS quiet
FROM runs WHERE rid = ANY ($1::bigint[]) OR root = ANY ($2::text[])
ORDER BY rid FOR UPDATE;

-- name: mark_keys
UPDATE start_keys SET removed_at = $2 FROM runs
WHERE runs.rid = ANY ($1::bigint[]) AND start_keys.space = runs.key_space AND start_keys.key = runs.key;

-- name: remove_events
DELETE FROM journal WHERE rid = ANY ($1::bigint[]);

-- name: remove_acts
DELETE FROM inbox WHERE rid = ANY ($1::bigint[]);

-- name: remove_incidents
DELETE FROM incidents WHERE rid = ANY ($1::bigint[]);

-- Ids of approvals begin with that of their run.
-- name: remove_approvals
DELETE FROM approvals USING runs
WHERE runs.rid = ANY ($1::bigint[]) AND approvals.id > runs.run_id || ':' AND approvals.id < runs.run_id || ';';

-- name: remove_runs
DELETE FROM runs WHERE rid = ANY ($1::bigint[]);

-- name: forget_keys
WITH old AS (
    DELETE FROM start_keys WHERE (space, key) IN (
        SELECT space, key FROM start_keys WHERE removed_at < $1 ORDER BY removed_at LIMIT $2
    ) RETURNING key
)
SELECT count(*) FROM old;

-- name: count_keys
SELECT count(*) FROM start_keys WHERE removed_at < $1;

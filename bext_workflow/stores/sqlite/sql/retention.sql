-- The topmost runs of families that may go, those first that have ended longest ago.
-- name: removable
SELECT rid, run_id FROM runs AS top
WHERE status = :status AND ended_at < :before AND root IS NULL
    AND owner IS NULL AND wake_at IS NULL AND incidents = 0
    AND NOT EXISTS (
        SELECT 1 FROM runs AS below WHERE below.root = top.run_id
            AND (below.ended_at IS NULL OR below.owner IS NOT NULL OR below.wake_at IS NOT NULL OR below.incidents > 0)
    )
ORDER BY ended_at LIMIT :limit;

-- name: below
SELECT rid FROM runs WHERE root = ? ORDER BY rid;

-- name: mark_keys
UPDATE start_keys SET removed_at = :at WHERE (space, key) IN (
    SELECT key_space, runs.key FROM runs WHERE rid IN (SELECT value FROM json_each(:rids)) AND runs.key IS NOT NULL
);

-- name: remove_events
DELETE FROM journal WHERE rid IN (SELECT value FROM json_each(?));

-- name: remove_acts
DELETE FROM inbox WHERE rid IN (SELECT value FROM json_each(?));

-- name: remove_incidents
DELETE FROM incidents WHERE id IN (
    SELECT incidents.id FROM json_each(?) AS gone CROSS JOIN incidents ON incidents.rid = gone.value
);

-- Ids of approvals begin with that of their run.
-- name: remove_approvals
DELETE FROM approvals WHERE id IN (
    SELECT approvals.id FROM json_each(?) AS gone
    CROSS JOIN runs ON runs.rid = gone.value
    CROSS JOIN approvals ON approvals.id > runs.run_id || ':' AND approvals.id < runs.run_id || ';'
);

-- name: remove_runs
DELETE FROM runs WHERE rid IN (SELECT value FROM json_each(?));

-- name: forget_keys
DELETE FROM start_keys WHERE (space, key) IN (
    SELECT space, key FROM start_keys WHERE removed_at < ? ORDER BY removed_at LIMIT ?
);

-- name: some_key
SELECT 1 FROM start_keys WHERE removed_at < ? LIMIT 1;

-- name: count_keys
SELECT count(*) FROM start_keys WHERE removed_at < ?;

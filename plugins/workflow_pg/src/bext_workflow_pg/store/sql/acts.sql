-- name: lock_run
SELECT rid FROM runs WHERE run_id = $1 FOR UPDATE;

-- The act, and the number of it. A run that nobody owns becomes due; the row of one that is owned stays as its owner
-- knows it.
-- name: post
WITH act AS (
    INSERT INTO inbox (rid, n, at, kind, by, data) VALUES ($1, $2, $3, $4, $5, $6)
)
UPDATE runs SET
    inbox = $2,
    wake_at = CASE WHEN owner IS NULL THEN least(coalesce(wake_at, $3), $3) ELSE wake_at END
WHERE rid = $1;

-- name: audit
INSERT INTO audit (at, by, name, run_id, schedule, reason, data) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: save_definition
INSERT INTO definitions (workflow, version, digest, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (workflow, version, digest) DO UPDATE SET body = excluded.body;

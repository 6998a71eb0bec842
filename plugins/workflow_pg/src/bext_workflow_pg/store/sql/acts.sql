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
INSERT INTO audit (at, by, name, run_id, about, reason, data) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: save_definition
INSERT INTO definitions (workflow, version, digest, policy, body, saved) VALUES (
    $1, $2, $3, $4, $5,
    (SELECT coalesce(max(saved), 0) + 1 FROM definitions WHERE workflow = $1 AND version = $2 AND digest = $3)
)
ON CONFLICT (workflow, version, digest, policy) DO UPDATE SET body = excluded.body, saved = excluded.saved;

-- name: keep_secret
INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING;

-- name: secret
SELECT value FROM secrets WHERE name = $1;

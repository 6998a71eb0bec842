-- name: insert_act
INSERT INTO inbox (rid, n, at, kind, by, data) VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_audit
INSERT INTO audit (at, by, name, run_id, about, reason, data) VALUES (?, ?, ?, ?, ?, ?, ?);

-- A run that nobody owns becomes due; the row of one that is owned stays as its owner knows it.
-- name: count_act
UPDATE runs SET
    inbox = :n,
    wake_at = CASE WHEN owner IS NULL THEN min(coalesce(wake_at, :at), :at) ELSE wake_at END
WHERE rid = :rid;

-- name: keep_secret
INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING;

-- name: secret
SELECT value FROM secrets WHERE name = ?;

-- name: save_definition
INSERT INTO definitions (workflow, version, digest, policy, body, saved) VALUES (
    :workflow, :version, :digest, :policy, :body,
    (SELECT coalesce(max(saved), 0) + 1 FROM definitions
        WHERE workflow = :workflow AND version = :version AND digest = :digest)
)
ON CONFLICT (workflow, version, digest, policy) DO UPDATE SET body = excluded.body, saved = excluded.saved;

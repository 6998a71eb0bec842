-- name: take_rids
UPDATE numbers SET last = last + ? WHERE name = 'rid' RETURNING last;

-- name: insert_run
INSERT INTO runs (
    rid, run_id, workflow, version, digest, status, step, seq, owner, fence, wake_at, key, tags, failure,
    created_at, started_at, updated_at, ended_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_start_key
INSERT INTO start_keys (workflow, key, run_id, fingerprint) VALUES (?, ?, ?, ?);

-- name: insert_event
INSERT INTO journal (rid, seq, at, kind, data) VALUES (?, ?, ?, ?, ?);

-- The two forms of an append. Its rowcount is the check of fence, gap and inbox. The first leaves the indexed columns alone.
-- name: advance
UPDATE runs SET seq = ?, step = ?, failure = ?, started_at = ?, ended_at = ?, updated_at = ?
WHERE rid = ? AND fence = ? AND seq = ? AND inbox = ? AND owner IS NOT NULL;

-- name: advance_and_move
UPDATE runs SET seq = ?, step = ?, failure = ?, started_at = ?, ended_at = ?, updated_at = ?,
    status = ?, wake_at = ?, owner = CASE WHEN ? THEN NULL ELSE owner END
WHERE rid = ? AND fence = ? AND seq = ? AND inbox = ? AND owner IS NOT NULL;

-- name: take_acts
DELETE FROM inbox WHERE rid = ? AND n <= ?;

-- name: open_incident
INSERT INTO incidents (
    id, rid, run_id, workflow, kind, call, step, visit, attempt, reason, actions, evidence, traceback,
    opened_at, resolved_at, resolution
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: attach_evidence
UPDATE incidents SET evidence = ? WHERE id = ? AND rid = ?;

-- name: resolve_incident
UPDATE incidents SET resolved_at = ?, resolution = ? WHERE id = ? AND rid = ? AND resolved_at IS NULL;

-- name: count_incidents
UPDATE runs SET incidents = (SELECT count(*) FROM incidents WHERE incidents.rid = runs.rid AND resolved_at IS NULL)
WHERE rid = ?;

-- name: start_key
SELECT run_id, fingerprint, removed_at FROM start_keys WHERE workflow = ? AND key = ?;

-- name: standing
SELECT fence, seq, inbox, owner FROM runs WHERE rid = ?;

-- name: rid_of
SELECT rid FROM runs WHERE run_id = ?;

-- name: events_between
SELECT at, kind, CAST(data AS BLOB) FROM journal WHERE rid = ? AND seq > ? AND seq <= ? ORDER BY seq;

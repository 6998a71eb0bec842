-- name: start_key
SELECT run_id, fingerprint, removed_at FROM start_keys WHERE space = ? AND key = ?;

-- name: standing
SELECT fence, seq, inbox, owner FROM runs WHERE rid = ?;

-- name: rid_of
SELECT rid FROM runs WHERE run_id = ?;

-- name: events_between
SELECT at, kind, CAST(data AS BLOB) FROM journal WHERE rid = ? AND seq > ? AND seq <= ? ORDER BY seq;

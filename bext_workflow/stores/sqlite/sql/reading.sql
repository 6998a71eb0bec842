-- name: run
SELECT * FROM runs WHERE rid = ?;

-- name: run_by_id
SELECT * FROM runs WHERE run_id = ?;

-- name: events
SELECT seq, at, kind, CAST(data AS BLOB) FROM journal WHERE rid = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: inbox
SELECT n, at, kind, by, CAST(data AS BLOB) FROM inbox WHERE rid = ? ORDER BY n;

-- name: runs_by_rids
SELECT * FROM runs WHERE rid IN (SELECT value FROM json_each(?));

-- name: events_by_rids
SELECT rid, seq, at, kind, CAST(data AS BLOB) FROM journal
WHERE rid IN (SELECT value FROM json_each(?)) ORDER BY rid, seq;

-- name: inbox_by_rids
SELECT rid, n, at, kind, by, CAST(data AS BLOB) FROM inbox
WHERE rid IN (SELECT value FROM json_each(?)) ORDER BY rid, n;

-- name: find
SELECT * FROM runs WHERE run_id >= :prefix AND run_id < :prefix || char(1114111) ORDER BY run_id LIMIT :limit;

-- name: started
SELECT runs.* FROM start_keys JOIN runs ON runs.run_id = start_keys.run_id WHERE space = ? AND start_keys.key = ?;

-- A page of one status, so that it walks one stretch of the index, in order.
-- name: runs_of_status
SELECT * FROM runs
WHERE status = :status AND run_id < :before
    AND (:workflow IS NULL OR workflow = :workflow)
    AND (:version IS NULL OR version = :version)
    AND (:since IS NULL OR created_at >= :since)
    AND (:until IS NULL OR created_at < :until)
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:tags) AS wanted
        WHERE NOT EXISTS (
            SELECT 1 FROM json_each(runs.tags) AS tag WHERE tag.key = wanted.key AND tag.value = wanted.value
        )
    )
    AND (:incident IS NULL OR EXISTS (
        SELECT 1 FROM incidents WHERE incidents.rid = runs.rid AND kind = :incident AND resolved_at IS NULL
    ))
ORDER BY run_id DESC LIMIT :limit;

-- name: incidents
SELECT * FROM incidents WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: incidents_open
SELECT * FROM incidents WHERE resolved_at IS NULL AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: incidents_of_run
SELECT incidents.* FROM runs CROSS JOIN incidents ON incidents.rid = runs.rid
WHERE runs.run_id = :run_id AND incidents.id < :before AND (NOT :open_only OR resolved_at IS NULL)
ORDER BY incidents.id DESC LIMIT :limit;

-- name: incident
SELECT * FROM incidents WHERE id >= :prefix AND id < :prefix || char(1114111) ORDER BY id LIMIT 2;

-- name: approvals
SELECT * FROM approvals WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: approvals_open
SELECT * FROM approvals WHERE closed_at IS NULL AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: approvals_of_run
SELECT * FROM approvals
WHERE id > :run_id || ':' AND id < :run_id || ';' AND id < :before AND (NOT :open_only OR closed_at IS NULL)
ORDER BY id DESC LIMIT :limit;

-- name: approval
SELECT * FROM approvals WHERE id >= :prefix AND id < :prefix || char(1114111)
ORDER BY id = :prefix DESC, closed_at IS NOT NULL, id LIMIT 2;

-- name: audit
SELECT id, at, by, name, run_id, about, reason, CAST(data AS BLOB) FROM audit
WHERE id < :before
    AND (:about IS NULL OR about = :about) AND (:by IS NULL OR by = :by) AND (:name IS NULL OR name = :name)
    AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
ORDER BY id DESC LIMIT :limit;

-- name: audit_after
SELECT id, at, by, name, run_id, about, reason, CAST(data AS BLOB) FROM audit
WHERE id > :after
    AND (:about IS NULL OR about = :about) AND (:by IS NULL OR by = :by) AND (:name IS NULL OR name = :name)
    AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
ORDER BY id LIMIT :limit;

-- name: audit_of_run
SELECT id, at, by, name, run_id, about, reason, CAST(data AS BLOB) FROM audit
WHERE run_id = :run_id AND run_id <> '' AND id < :before
    AND (:about IS NULL OR about = :about) AND (:by IS NULL OR by = :by) AND (:name IS NULL OR name = :name)
    AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
ORDER BY id DESC LIMIT :limit;

-- name: audit_of_run_after
SELECT id, at, by, name, run_id, about, reason, CAST(data AS BLOB) FROM audit
WHERE run_id = :run_id AND run_id <> '' AND id > :after
    AND (:about IS NULL OR about = :about) AND (:by IS NULL OR by = :by) AND (:name IS NULL OR name = :name)
    AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
ORDER BY id LIMIT :limit;

-- name: definition
SELECT CAST(body AS BLOB) FROM definitions
WHERE workflow = :workflow AND version = :version AND digest = :digest AND (:policy IS NULL OR policy = :policy)
ORDER BY saved DESC LIMIT 1;

-- name: live_digests
SELECT workflow, version, digest, count(*) FROM runs
WHERE status IN (SELECT value FROM json_each(?)) GROUP BY workflow, version, digest ORDER BY workflow, version, digest;

-- name: open_incidents
SELECT kind, count(*) FROM incidents WHERE resolved_at IS NULL GROUP BY kind;

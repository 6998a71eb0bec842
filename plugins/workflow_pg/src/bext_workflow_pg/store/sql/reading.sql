-- Whole runs: the rows, the events after a seq, the inbox; one statement, so all of one moment.
-- name: load
SELECT
    runs.*,
    ARRAY (
        SELECT ROW (seq, at, kind, convert_to(data, 'UTF8')) FROM journal
        WHERE journal.rid = runs.rid AND journal.seq > $2 ORDER BY journal.seq
    ) AS events,
    ARRAY (
        SELECT ROW (n, at, kind, by, convert_to(data, 'UTF8')) FROM inbox
        WHERE inbox.rid = runs.rid ORDER BY inbox.n
    ) AS acts
FROM runs WHERE runs.rid = ANY ($1::bigint[]);

-- name: events
SELECT seq, at, kind, convert_to(data, 'UTF8') FROM journal WHERE rid = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: find
SELECT * FROM runs WHERE run_id >= $1 AND run_id < $1 || chr(1114111) ORDER BY run_id LIMIT $2;

-- name: started
SELECT runs.* FROM start_keys JOIN runs ON runs.run_id = start_keys.run_id
WHERE start_keys.space = $1 AND start_keys.key = $2;

-- A page of each status, merged: each of them is one stretch of the index, in order.
-- name: runs
SELECT page.* FROM unnest($1::text[]) AS wanted (status) CROSS JOIN LATERAL (
    SELECT * FROM runs
    WHERE runs.status = wanted.status AND runs.run_id < $2
        AND ($4::text IS NULL OR workflow = $4)
        AND ($5::integer IS NULL OR version = $5)
        AND ($6::bigint IS NULL OR created_at >= $6)
        AND ($7::bigint IS NULL OR created_at < $7)
        AND ($8::text = '{}' OR tags::jsonb @> $8::jsonb)
        AND ($9::text IS NULL OR EXISTS (
            SELECT 1 FROM incidents WHERE incidents.rid = runs.rid AND kind = $9 AND resolved_at IS NULL
        ))
    ORDER BY runs.run_id DESC LIMIT $3
) AS page
ORDER BY page.run_id DESC LIMIT $3;

-- name: incidents
SELECT * FROM incidents WHERE id < $1 ORDER BY id DESC LIMIT $2;

-- name: incidents_open
SELECT * FROM incidents WHERE resolved_at IS NULL AND id < $1 ORDER BY id DESC LIMIT $2;

-- name: incidents_of_run
SELECT * FROM incidents
WHERE rid = (SELECT rid FROM runs WHERE run_id = $3) AND id < $1 AND (NOT $4 OR resolved_at IS NULL)
ORDER BY id DESC LIMIT $2;

-- name: open_incidents
SELECT kind, count(*) FROM incidents WHERE resolved_at IS NULL GROUP BY kind;

-- name: incident
SELECT * FROM incidents WHERE id >= $1 AND id < $1 || chr(1114111) ORDER BY id LIMIT 2;

-- name: approvals
SELECT * FROM approvals WHERE id < $1 ORDER BY id DESC LIMIT $2;

-- name: approvals_open
SELECT * FROM approvals WHERE closed_at IS NULL AND id < $1 ORDER BY id DESC LIMIT $2;

-- name: approvals_of_run
SELECT * FROM approvals
WHERE id > $3 || ':' AND id < $3 || ';' AND id < $1 AND (NOT $4 OR closed_at IS NULL)
ORDER BY id DESC LIMIT $2;

-- name: approval
SELECT * FROM approvals WHERE id >= $1 AND id < $1 || chr(1114111)
ORDER BY id = $1 DESC, closed_at IS NOT NULL, id LIMIT 2;

-- name: audit
SELECT id, at, by, name, run_id, about, reason, convert_to(data, 'UTF8') AS data FROM audit
WHERE $3::text IS NULL AND id < $1
    AND ($4::text IS NULL OR about = $4) AND ($5::text IS NULL OR by = $5) AND ($6::text IS NULL OR name = $6)
    AND ($7::bigint IS NULL OR at >= $7) AND ($8::bigint IS NULL OR at < $8)
ORDER BY id DESC LIMIT $2;

-- name: audit_after
SELECT id, at, by, name, run_id, about, reason, convert_to(data, 'UTF8') AS data FROM audit
WHERE $3::text IS NULL AND id > $1
    AND ($4::text IS NULL OR about = $4) AND ($5::text IS NULL OR by = $5) AND ($6::text IS NULL OR name = $6)
    AND ($7::bigint IS NULL OR at >= $7) AND ($8::bigint IS NULL OR at < $8)
ORDER BY id LIMIT $2;

-- name: audit_of_run
SELECT id, at, by, name, run_id, about, reason, convert_to(data, 'UTF8') AS data FROM audit
WHERE run_id = $3 AND run_id <> '' AND id < $1
    AND ($4::text IS NULL OR about = $4) AND ($5::text IS NULL OR by = $5) AND ($6::text IS NULL OR name = $6)
    AND ($7::bigint IS NULL OR at >= $7) AND ($8::bigint IS NULL OR at < $8)
ORDER BY id DESC LIMIT $2;

-- name: audit_of_run_after
SELECT id, at, by, name, run_id, about, reason, convert_to(data, 'UTF8') AS data FROM audit
WHERE run_id = $3 AND run_id <> '' AND id > $1
    AND ($4::text IS NULL OR about = $4) AND ($5::text IS NULL OR by = $5) AND ($6::text IS NULL OR name = $6)
    AND ($7::bigint IS NULL OR at >= $7) AND ($8::bigint IS NULL OR at < $8)
ORDER BY id LIMIT $2;

-- name: definition
SELECT convert_to(body, 'UTF8') FROM definitions
WHERE workflow = $1 AND version = $2 AND digest = $3 AND ($4::text IS NULL OR policy = $4)
ORDER BY saved DESC LIMIT 1;

-- name: live_digests
SELECT workflow, version, digest, count(*) FROM runs
WHERE status = ANY ($1::text[]) GROUP BY workflow, version, digest ORDER BY workflow, version, digest;

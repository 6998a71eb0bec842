-- Due and nobody's, or, where this process alone may drive (`:alone`), owned by anyone else.
-- name: claimable
WITH served AS (
    SELECT json_extract(value, '$[0]') AS workflow, json_extract(value, '$[1]') AS version FROM json_each(:served)
)
SELECT rid, orphan FROM (
    SELECT * FROM (
        SELECT rid, wake_at, 0 AS orphan FROM runs
        WHERE owner IS NULL AND wake_at IS NOT NULL AND wake_at <= :now
            AND (workflow, version) IN (SELECT workflow, version FROM served)
        ORDER BY wake_at LIMIT :limit
    )
    UNION ALL
    SELECT rid, wake_at, 1 FROM runs
    WHERE :alone AND owner IS NOT NULL AND owner < :owner
        AND (workflow, version) IN (SELECT workflow, version FROM served)
    UNION ALL
    SELECT rid, wake_at, 1 FROM runs
    WHERE :alone AND owner IS NOT NULL AND owner > :owner
        AND (workflow, version) IN (SELECT workflow, version FROM served)
)
ORDER BY wake_at LIMIT :limit;

-- name: claimable_only
WITH served AS (
    SELECT json_extract(value, '$[0]') AS workflow, json_extract(value, '$[1]') AS version FROM json_each(:served)
)
SELECT rid, owner IS NOT NULL AS orphan FROM runs
WHERE run_id IN (SELECT value FROM json_each(:only)) AND (workflow, version) IN (SELECT workflow, version FROM served)
    AND CASE WHEN owner IS NULL THEN wake_at <= :now ELSE :alone AND owner <> :owner END
ORDER BY wake_at LIMIT :limit;

-- name: take
UPDATE runs SET owner = ?, fence = fence + 1 WHERE rid IN (SELECT value FROM json_each(?));

-- An orphan is due whenever it is, `:holder` being who has the seat.
-- name: next_wake
WITH served AS (
    SELECT json_extract(value, '$[0]') AS workflow, json_extract(value, '$[1]') AS version FROM json_each(:served)
)
SELECT min(wake_at) AS wake_at FROM (
    SELECT * FROM (
        SELECT wake_at FROM runs
        WHERE owner IS NULL AND wake_at IS NOT NULL AND (workflow, version) IN (SELECT workflow, version FROM served)
        ORDER BY wake_at LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT 0 FROM runs
        WHERE owner IS NOT NULL AND owner < :holder AND (workflow, version) IN (SELECT workflow, version FROM served)
        LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT 0 FROM runs
        WHERE owner IS NOT NULL AND owner > :holder AND (workflow, version) IN (SELECT workflow, version FROM served)
        LIMIT 1
    )
);

-- name: next_wake_only
WITH served AS (
    SELECT json_extract(value, '$[0]') AS workflow, json_extract(value, '$[1]') AS version FROM json_each(:served)
)
SELECT CASE WHEN owner IS NULL THEN wake_at ELSE 0 END AS wake_at FROM runs
WHERE run_id IN (SELECT value FROM json_each(:only)) AND (workflow, version) IN (SELECT workflow, version FROM served)
    AND CASE WHEN owner IS NULL THEN wake_at IS NOT NULL ELSE owner <> :holder END
ORDER BY 1 LIMIT 1;

-- From the inbox, which is all but empty, to the runs.
-- name: with_acts
SELECT DISTINCT inbox.rid FROM inbox CROSS JOIN runs ON runs.rid = inbox.rid WHERE runs.owner = ?;

-- name: clear_hosts
DELETE FROM hosts;

-- name: insert_host
INSERT INTO hosts (host_id, pid, hostname, started_at, served, only_run, lease_ms) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: delete_host
DELETE FROM hosts WHERE host_id = ?;

-- name: host
SELECT * FROM hosts WHERE host_id = ?;

-- The first condition is that of the index.
-- name: owned
SELECT rid, run_id FROM runs WHERE owner IS NOT NULL AND owner = ? ORDER BY rid;

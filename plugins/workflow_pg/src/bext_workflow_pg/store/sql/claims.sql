-- Whoever has been here before and whose lease has run out makes room.
-- name: clear_hosts
DELETE FROM hosts WHERE expires_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint AND host_id <> $1;

-- name: join
INSERT INTO hosts (host_id, pid, hostname, started_at, served, only_run, lease_ms, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $7)
ON CONFLICT (host_id) DO UPDATE SET
    pid = excluded.pid, hostname = excluded.hostname, started_at = excluded.started_at, served = excluded.served,
    only_run = excluded.only_run, lease_ms = excluded.lease_ms, expires_at = excluded.expires_at;

-- name: renew
UPDATE hosts SET expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + lease_ms
WHERE host_id = $1 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
RETURNING true;

-- name: leave
DELETE FROM hosts WHERE host_id = $1;

-- name: hosts
SELECT * FROM hosts WHERE expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
ORDER BY started_at, host_id;

-- name: alive
SELECT EXISTS (
    SELECT 1 FROM hosts WHERE host_id = $1 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
);

-- `owners` hops over the index from owner to owner. `expired` waits for nobody: a lease that is being renewed right now
-- holds, and one that is looked at here cannot be renewed until this claim stands.
-- `dead` is a fixed list: a run that another host takes meanwhile has an owner that is not in it.
-- name: claim
WITH RECURSIVE served AS (
    SELECT * FROM unnest($2::text[], $3::integer[]) AS served (workflow, version)
),
owners (owner) AS (
    (SELECT owner FROM runs WHERE owner IS NOT NULL ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT runs.owner FROM runs WHERE runs.owner > owners.owner ORDER BY runs.owner LIMIT 1)
    FROM owners WHERE owners.owner IS NOT NULL
),
expired AS MATERIALIZED (
    SELECT host_id FROM hosts WHERE expires_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FOR SHARE SKIP LOCKED
),
dead AS MATERIALIZED (
    SELECT owner FROM owners
    WHERE owner <> $1 AND (
        NOT EXISTS (SELECT 1 FROM hosts WHERE host_id = owner) OR owner IN (SELECT host_id FROM expired)
    )
),
me AS MATERIALIZED (
    SELECT 1 FROM hosts WHERE host_id = $1 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
),
due AS (
    SELECT rid, wake_at, false AS orphan FROM runs
    WHERE owner IS NULL AND wake_at IS NOT NULL AND wake_at <= $4
        AND (workflow, version) IN (SELECT workflow, version FROM served) AND EXISTS (SELECT 1 FROM me)
    ORDER BY wake_at LIMIT $5 FOR UPDATE SKIP LOCKED
),
left_behind AS (
    SELECT rid, wake_at, true AS orphan FROM runs
    WHERE owner IN (SELECT owner FROM dead)
        AND (workflow, version) IN (SELECT workflow, version FROM served) AND EXISTS (SELECT 1 FROM me)
    ORDER BY wake_at NULLS FIRST LIMIT $5 FOR UPDATE SKIP LOCKED
),
chosen AS (
    SELECT * FROM due UNION ALL SELECT * FROM left_behind ORDER BY wake_at NULLS FIRST LIMIT $5
)
UPDATE runs SET owner = $1, fence = fence + 1 FROM chosen WHERE runs.rid = chosen.rid
RETURNING runs.rid, runs.fence, chosen.orphan, runs.wake_at;

-- name: claim_only
WITH served AS (
    SELECT * FROM unnest($2::text[], $3::integer[]) AS served (workflow, version)
),
expired AS MATERIALIZED (
    SELECT host_id FROM hosts WHERE expires_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FOR SHARE SKIP LOCKED
),
owners AS (
    SELECT DISTINCT owner FROM runs WHERE run_id = ANY ($6::text[])
),
dead AS MATERIALIZED (
    SELECT owner FROM owners
    WHERE owner <> $1 AND (
        NOT EXISTS (SELECT 1 FROM hosts WHERE host_id = owner) OR owner IN (SELECT host_id FROM expired)
    )
),
me AS MATERIALIZED (
    SELECT 1 FROM hosts WHERE host_id = $1 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
),
chosen AS (
    SELECT rid, owner IS NOT NULL AS orphan FROM runs
    WHERE run_id = ANY ($6::text[]) AND (workflow, version) IN (SELECT workflow, version FROM served) AND EXISTS (SELECT 1 FROM me)
        AND ((owner IS NULL AND wake_at <= $4) OR owner IN (SELECT owner FROM dead))
    ORDER BY wake_at NULLS FIRST LIMIT $5 FOR UPDATE SKIP LOCKED
)
UPDATE runs SET owner = $1, fence = fence + 1 FROM chosen WHERE runs.rid = chosen.rid
RETURNING runs.rid, runs.fence, chosen.orphan, runs.wake_at;

-- Those of an unclear claim that stand.
-- name: claimed
SELECT runs.rid, asked.orphan FROM unnest($2::bigint[], $3::bigint[], $4::boolean[]) AS asked (rid, fence, orphan)
JOIN runs ON runs.rid = asked.rid AND runs.fence = asked.fence AND runs.owner = $1;

-- name: next_wake
WITH RECURSIVE served AS (
    SELECT * FROM unnest($1::text[], $2::integer[]) AS served (workflow, version)
),
owners (owner) AS (
    (SELECT owner FROM runs WHERE owner IS NOT NULL ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT runs.owner FROM runs WHERE runs.owner > owners.owner ORDER BY runs.owner LIMIT 1)
    FROM owners WHERE owners.owner IS NOT NULL
),
dead AS MATERIALIZED (
    SELECT owner FROM owners
    WHERE owner IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM hosts
        WHERE host_id = owner AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    )
)
SELECT min(wake_at) FROM (
    (
        SELECT wake_at FROM runs
        WHERE owner IS NULL AND wake_at IS NOT NULL AND (workflow, version) IN (SELECT workflow, version FROM served)
        ORDER BY wake_at LIMIT 1
    )
    UNION ALL
    (
        SELECT 0 FROM runs
        WHERE owner IN (SELECT owner FROM dead) AND (workflow, version) IN (SELECT workflow, version FROM served)
        LIMIT 1
    )
) AS wakes (wake_at);

-- name: next_wake_only
SELECT min(CASE WHEN owner IS NULL THEN wake_at ELSE 0 END) FROM runs
WHERE run_id = ANY ($3::text[])
    AND (workflow, version) IN (SELECT * FROM unnest($1::text[], $2::integer[]))
    AND (owner IS NULL OR NOT EXISTS (
        SELECT 1 FROM hosts
        WHERE host_id = owner AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    ));

-- From the inbox, which is all but empty, to the runs.
-- name: with_acts
SELECT DISTINCT inbox.rid FROM inbox JOIN runs ON runs.rid = inbox.rid WHERE runs.owner = $1 ORDER BY inbox.rid;

-- name: owned
SELECT rid, run_id FROM runs WHERE owner = $1 ORDER BY rid;

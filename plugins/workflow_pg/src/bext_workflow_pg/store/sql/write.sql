-- The smallest write there is: it gives a number out, and its COMMIT goes to the disk.
-- name: beat
SELECT pg_current_xact_id();

-- All new runs, each with its journal and audit row, but those whose key or id is taken: they are not in the answer.
-- Keys come in one order, whoever inserts them, so that two batches wait for one another at most one way.
-- name: create
WITH new AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[],
        $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::bigint[],
        $17::bigint[], $18::text[]
    ) WITH ORDINALITY AS new (
        run_id, workflow, version, digest, status, step, seq, owner, wake_at, key, space, fingerprint, tags, failure,
        at, started_at, ended_at, root, place
    )
),
keyed AS (
    INSERT INTO start_keys (space, key, run_id, fingerprint)
    SELECT space, key, run_id, fingerprint FROM new
    WHERE key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = new.run_id)
    ORDER BY space COLLATE "C", key COLLATE "C", place
    ON CONFLICT (space, key) DO NOTHING
    RETURNING run_id
),
begun AS (
    INSERT INTO runs (
        run_id, workflow, version, digest, status, step, seq, owner, fence, wake_at, key, key_space, root, tags,
        failure, created_at, started_at, updated_at, ended_at
    )
    SELECT
        run_id, workflow, version, digest, status, step, seq, owner, CASE WHEN owner IS NULL THEN 0 ELSE 1 END,
        wake_at, key, space, root, tags, failure, at, started_at, at, ended_at
    FROM new WHERE key IS NULL OR run_id IN (SELECT run_id FROM keyed)
    ORDER BY place
    ON CONFLICT (run_id) DO NOTHING
    RETURNING rid, run_id
),
journaled AS (
    INSERT INTO journal (rid, seq, at, kind, data)
    SELECT begun.rid, event.seq, event.at, event.kind, event.data
    FROM unnest($19::text[], $20::bigint[], $21::bigint[], $22::text[], $23::text[])
        AS event (run_id, seq, at, kind, data)
    JOIN begun ON begun.run_id = event.run_id
),
audited AS (
    INSERT INTO audit (at, by, name, run_id, about, reason, data)
    SELECT entry.at, entry.by, entry.name, entry.run_id, entry.about, entry.reason, entry.data
    FROM unnest($24::bigint[], $25::text[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[])
        AS entry (at, by, name, run_id, about, reason, data)
    JOIN begun ON begun.run_id = entry.run_id
)
SELECT rid, run_id FROM begun;

-- All appends; those that hold are the answer. The condition is the check of fence, gap and inbox.
-- name: advance
WITH held AS (
    UPDATE runs SET
        seq = new.next_seq, step = new.step, failure = new.failure, started_at = new.started_at,
        ended_at = new.ended_at, updated_at = new.at, status = new.status, wake_at = new.wake_at,
        owner = CASE WHEN new.release THEN NULL ELSE runs.owner END
    FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
        $9::bigint[], $10::text[], $11::bigint[], $12::bigint[], $13::boolean[]
    ) AS new (
        rid, fence, seq, inbox, next_seq, at, status, step, wake_at, failure, started_at, ended_at, release
    )
    WHERE runs.rid = new.rid AND runs.fence = new.fence AND runs.seq = new.seq AND runs.inbox = new.inbox
        AND runs.owner IS NOT NULL
    RETURNING runs.rid
),
journaled AS (
    INSERT INTO journal (rid, seq, at, kind, data)
    SELECT event.rid, event.seq, event.at, event.kind, event.data
    FROM unnest($14::bigint[], $15::bigint[], $16::bigint[], $17::text[], $18::text[])
        AS event (rid, seq, at, kind, data)
    JOIN held ON held.rid = event.rid
)
SELECT rid FROM held;

-- name: take_acts
DELETE FROM inbox USING unnest($1::bigint[], $2::bigint[]) AS done (rid, n)
WHERE inbox.rid = done.rid AND inbox.n <= done.n;

-- name: open_incident
INSERT INTO incidents (
    id, rid, run_id, workflow, kind, call, step, visit, attempt, reason, actions, evidence, traceback,
    key, opened_at, resolved_at, resolution
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);

-- name: attach_evidence
UPDATE incidents SET evidence = $1 WHERE id = $2 AND rid = $3;

-- name: resolve_incident
UPDATE incidents SET resolved_at = $1, resolution = $2 WHERE id = $3 AND rid = $4 AND resolved_at IS NULL;

-- name: ask
INSERT INTO approvals (
    id, rid, run_id, workflow, step, visit, title, deciders, not_by, form, opened_at, due_at, closed_at, resolution
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO UPDATE SET
    title = excluded.title, deciders = excluded.deciders, not_by = excluded.not_by, form = excluded.form,
    opened_at = excluded.opened_at, due_at = excluded.due_at, closed_at = excluded.closed_at,
    resolution = excluded.resolution;

-- name: decide
UPDATE approvals SET closed_at = $1, resolution = $2 WHERE id = $3 AND rid = $4 AND closed_at IS NULL;

-- name: count_incidents
UPDATE runs SET incidents = (SELECT count(*) FROM incidents WHERE incidents.rid = runs.rid AND resolved_at IS NULL)
WHERE rid = ANY ($1::bigint[]);

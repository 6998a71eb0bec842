-- The smallest write there is.
-- name: beat
UPDATE numbers SET last = last WHERE name = 'rid';

-- name: draw_rids
UPDATE numbers SET last = last + ? WHERE name = 'rid';

-- name: last_rid
SELECT last FROM numbers WHERE name = 'rid';

-- name: insert_run
INSERT INTO runs (
    rid, run_id, workflow, version, digest, status, step, seq, owner, fence, wake_at, key, key_space, root, tags,
    failure, created_at, started_at, updated_at, ended_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_start_key
INSERT INTO start_keys (space, key, run_id, fingerprint) VALUES (?, ?, ?, ?);

-- name: insert_event
INSERT INTO journal (rid, seq, at, kind, data) VALUES (?, ?, ?, ?, ?);

-- The two forms of an append. Its rowcount is the check of fence, gap and inbox. The first leaves the indexed columns alone.
-- name: advance
UPDATE runs SET
    seq = new.column5, step = new.column6, failure = new.column7, started_at = new.column8, updated_at = new.column9
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)) AS new
WHERE rid = new.column1 AND fence = new.column2 AND seq = new.column3 AND inbox = new.column4 AND owner IS NOT NULL;

-- name: advance_and_move
UPDATE runs SET
    seq = new.column5, step = new.column6, failure = new.column7, started_at = new.column8, updated_at = new.column9,
    status = new.column10, wake_at = new.column11, ended_at = new.column12,
    owner = CASE WHEN new.column13 THEN NULL ELSE owner END
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS new
WHERE rid = new.column1 AND fence = new.column2 AND seq = new.column3 AND inbox = new.column4 AND owner IS NOT NULL;

-- name: take_acts
DELETE FROM inbox WHERE rid = ? AND n <= ?;

-- name: open_incident
INSERT INTO incidents (
    id, rid, run_id, workflow, kind, call, step, visit, attempt, reason, actions, evidence, traceback,
    key, opened_at, resolved_at, resolution
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: attach_evidence
UPDATE incidents SET evidence = ? WHERE id = ? AND rid = ?;

-- name: resolve_incident
UPDATE incidents SET resolved_at = ?, resolution = ? WHERE id = ? AND rid = ? AND resolved_at IS NULL;

-- name: ask
INSERT OR REPLACE INTO approvals (
    id, rid, run_id, workflow, step, visit, title, deciders, not_by, form, opened_at, due_at, closed_at, resolution
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: decide
UPDATE approvals SET closed_at = ?, resolution = ? WHERE id = ? AND rid = ? AND closed_at IS NULL;

-- name: count_incidents
UPDATE runs SET incidents = (SELECT count(*) FROM incidents WHERE incidents.rid = runs.rid AND resolved_at IS NULL)
WHERE rid = ?;

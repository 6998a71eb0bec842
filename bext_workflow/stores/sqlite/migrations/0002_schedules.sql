-- A key is unique in its space: that of a workflow's callers, or one of the host's own.
CREATE TABLE start_keys_by_space (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    removed_at INTEGER,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;

INSERT INTO start_keys_by_space (space, key, run_id, fingerprint, removed_at)
SELECT 'workflow:' || workflow, key, run_id, fingerprint, removed_at FROM start_keys;

DROP TABLE start_keys;
ALTER TABLE start_keys_by_space RENAME TO start_keys;

CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    paused INTEGER NOT NULL,
    rule TEXT NOT NULL,
    handled INTEGER,
    buffered INTEGER,
    last_slot INTEGER,
    last_result TEXT,
    last_run_id TEXT,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;

ALTER TABLE audit ADD COLUMN schedule TEXT NOT NULL DEFAULT '';

-- The numbers that have been given out, so that none is given twice, even after the row that had it is gone.
CREATE TABLE numbers (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO numbers (name, last) VALUES ('rid', 0);

-- One row a run: the index over the runs, written with the journal rows that it reflects. `inbox` counts its acts so far.
CREATE TABLE runs (
    rid INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    status TEXT NOT NULL,
    step TEXT,
    seq INTEGER NOT NULL,
    inbox INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    fence INTEGER NOT NULL,
    wake_at INTEGER,
    key TEXT,
    key_space TEXT NOT NULL DEFAULT '',
    root TEXT,
    tags TEXT NOT NULL DEFAULT '{}',
    failure TEXT,
    incidents INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER
);

CREATE UNIQUE INDEX runs_run_id ON runs (run_id);
CREATE INDEX runs_status ON runs (status, run_id);
-- What may be removed: a child goes with the topmost run above it, its `root`.
CREATE INDEX runs_ended ON runs (status, ended_at) WHERE ended_at IS NOT NULL AND root IS NULL;
CREATE INDEX runs_root ON runs (root) WHERE root IS NOT NULL;
-- Who drives what, and what is due: ended and parked runs are not in it, so a claim does not see them.
CREATE INDEX runs_claim ON runs (owner, wake_at) WHERE wake_at IS NOT NULL OR owner IS NOT NULL;

-- The truth. Not clustered by run: each step would rewrite the page that holds the start context.
CREATE TABLE journal (
    id INTEGER PRIMARY KEY,
    rid INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
);

CREATE UNIQUE INDEX journal_rid_seq ON journal (rid, seq);

-- Acts that wait for the run's driver; a row goes in the append that has done with it.
CREATE TABLE inbox (
    rid INTEGER NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    by TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (rid, n)
) WITHOUT ROWID;

-- Outlives the run, so that a key is not reused too soon: `removed_at` is set when the run goes.
-- A key is unique in its space: that of a workflow's callers, or one of the host's own.
CREATE TABLE start_keys (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    removed_at INTEGER,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;

CREATE INDEX start_keys_removed ON start_keys (removed_at) WHERE removed_at IS NOT NULL;

CREATE TABLE incidents (
    id TEXT PRIMARY KEY,
    rid INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    kind TEXT NOT NULL,
    call TEXT NOT NULL,
    step TEXT NOT NULL,
    visit INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    reason TEXT NOT NULL,
    actions TEXT NOT NULL,
    evidence TEXT NOT NULL,
    traceback TEXT,
    key TEXT,
    opened_at INTEGER NOT NULL,
    resolved_at INTEGER,
    resolution TEXT NOT NULL DEFAULT 'null'
) WITHOUT ROWID;

CREATE INDEX incidents_rid ON incidents (rid, id);
CREATE INDEX incidents_open ON incidents (id) WHERE resolved_at IS NULL;

-- What persons are to decide; an id is the key of the visit that waits.
CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    rid INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    step TEXT NOT NULL,
    visit INTEGER NOT NULL,
    title TEXT NOT NULL,
    deciders TEXT NOT NULL,
    not_by TEXT,
    form TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    due_at INTEGER,
    closed_at INTEGER,
    resolution TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX approvals_open ON approvals (id) WHERE closed_at IS NULL;

CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- Every definition that was served: one graph with each policy that it had. The one `saved` last is in force.
CREATE TABLE definitions (
    workflow TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    policy TEXT NOT NULL,
    saved INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (workflow, version, digest, policy)
) WITHOUT ROWID;

-- `only_run`: the one run that a host drives, for a command; NULL: all that it serves. Its lease is its OS lock.
CREATE TABLE hosts (
    host_id TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    hostname TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    served TEXT NOT NULL,
    only_run TEXT,
    lease_ms INTEGER NOT NULL
) WITHOUT ROWID;

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

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    by TEXT NOT NULL,
    name TEXT NOT NULL,
    run_id TEXT NOT NULL,
    about TEXT NOT NULL,
    reason TEXT NOT NULL,
    data TEXT NOT NULL
);

CREATE INDEX audit_run ON audit (run_id, id) WHERE run_id <> '';

-- Access tokens, by the hash of what their holders send. A row stays when its token is revoked.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    scopes TEXT NOT NULL,
    roles TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;

CREATE UNIQUE INDEX tokens_digest ON tokens (digest);

-- Who is told of what. A row stays when its webhook is removed.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    workflows TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    removed_at INTEGER
) WITHOUT ROWID;

-- The outbox: what is to be told, written with the run that it is about; what has been told stays for a while.
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    webhook_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    at INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at INTEGER,
    status INTEGER,
    error TEXT,
    settled_at INTEGER
) WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

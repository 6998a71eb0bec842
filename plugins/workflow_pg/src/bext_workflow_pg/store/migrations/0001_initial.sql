-- Whatever is compared or sorted is text by its bytes: COLLATE "C". Whatever is kept word for word is text, never jsonb.

-- One row a run: the index over the runs, written with the journal rows that it reflects. `inbox` counts its acts so far.
-- The pages keep room, so that a step, which changes no indexed column, finds it on its own page.
CREATE TABLE runs (
    rid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id text COLLATE "C" NOT NULL,
    workflow text NOT NULL,
    version integer NOT NULL,
    digest text NOT NULL,
    status text NOT NULL,
    step text,
    seq bigint NOT NULL,
    inbox bigint NOT NULL DEFAULT 0,
    owner text COLLATE "C",
    fence bigint NOT NULL,
    wake_at bigint,
    key text,
    key_space text NOT NULL DEFAULT '',
    root text COLLATE "C",
    tags text NOT NULL DEFAULT '{}',
    failure text,
    incidents integer NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    started_at bigint,
    updated_at bigint NOT NULL,
    ended_at bigint
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX runs_run_id ON runs (run_id);
CREATE INDEX runs_status ON runs (status, run_id);
-- What may be removed: a child goes with the topmost run above it, its `root`.
CREATE INDEX runs_ended ON runs (status, ended_at) WHERE ended_at IS NOT NULL AND root IS NULL;
CREATE INDEX runs_root ON runs (root) WHERE root IS NOT NULL;
-- What is due and nobody's, and who drives what: ended and parked runs are in neither, so a claim does not see them.
CREATE INDEX runs_due ON runs (wake_at) WHERE owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX runs_owner ON runs (owner) WHERE owner IS NOT NULL;

-- The truth.
CREATE TABLE journal (
    rid bigint NOT NULL,
    seq bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (rid, seq)
);

-- Acts that wait for the run's driver; a row goes in the append that has done with it.
CREATE TABLE inbox (
    rid bigint NOT NULL,
    n bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    by text NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (rid, n)
);

-- Outlives the run, so that a key is not reused too soon: `removed_at` is set when the run goes.
-- A key is unique in its space: that of a workflow's callers, or one of the host's own.
CREATE TABLE start_keys (
    space text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    run_id text NOT NULL,
    fingerprint text NOT NULL,
    removed_at bigint,
    PRIMARY KEY (space, key)
);

CREATE INDEX start_keys_removed ON start_keys (removed_at) WHERE removed_at IS NOT NULL;

CREATE TABLE incidents (
    id text COLLATE "C" PRIMARY KEY,
    rid bigint NOT NULL,
    run_id text NOT NULL,
    workflow text NOT NULL,
    kind text NOT NULL,
    call text NOT NULL,
    step text NOT NULL,
    visit bigint NOT NULL,
    attempt bigint NOT NULL,
    reason text NOT NULL,
    actions text NOT NULL,
    evidence text NOT NULL,
    traceback text,
    key text,
    opened_at bigint NOT NULL,
    resolved_at bigint,
    resolution text NOT NULL DEFAULT 'null'
);

CREATE INDEX incidents_rid ON incidents (rid, id);
CREATE INDEX incidents_open ON incidents (id) WHERE resolved_at IS NULL;

-- What persons are to decide; an id is the key of the visit that waits.
CREATE TABLE approvals (
    id text COLLATE "C" PRIMARY KEY,
    rid bigint NOT NULL,
    run_id text NOT NULL,
    workflow text NOT NULL,
    step text NOT NULL,
    visit bigint NOT NULL,
    title text NOT NULL,
    deciders text NOT NULL,
    not_by text,
    form text NOT NULL,
    opened_at bigint NOT NULL,
    due_at bigint,
    closed_at bigint,
    resolution text NOT NULL
);

CREATE INDEX approvals_open ON approvals (id) WHERE closed_at IS NULL;

CREATE TABLE secrets (
    name text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);

-- Every definition that was served: one graph with each policy that it had. The one `saved` last is in force.
CREATE TABLE definitions (
    workflow text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    digest text COLLATE "C" NOT NULL,
    policy text COLLATE "C" NOT NULL,
    saved bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workflow, version, digest, policy)
);

-- A host is alive while its lease holds; `expires_at` is of the database's own clock.
-- `only_run`: the one run that a host drives, for a command; NULL: all that it serves.
CREATE TABLE hosts (
    host_id text COLLATE "C" PRIMARY KEY,
    pid integer NOT NULL,
    hostname text NOT NULL,
    started_at bigint NOT NULL,
    served text NOT NULL,
    only_run text,
    lease_ms bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE schedules (
    id text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL,
    rule text NOT NULL,
    handled bigint,
    buffered bigint,
    last_slot bigint,
    last_result text,
    last_run_id text,
    updated_at bigint NOT NULL
);

CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    by text NOT NULL,
    name text NOT NULL,
    run_id text NOT NULL,
    about text NOT NULL,
    reason text NOT NULL,
    data text NOT NULL
);

CREATE INDEX audit_run ON audit (run_id, id) WHERE run_id <> '';

-- Access tokens, by the hash of what their holders send. A row stays when its token is revoked.
CREATE TABLE tokens (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    digest text NOT NULL UNIQUE,
    scopes text NOT NULL,
    roles text NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    expires_at bigint,
    revoked_at bigint
);

-- Who is told of what. A row stays when its webhook is removed.
CREATE TABLE webhooks (
    id text COLLATE "C" PRIMARY KEY,
    url text NOT NULL,
    events text NOT NULL,
    workflows text NOT NULL,
    secret text NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    removed_at bigint
);

-- The outbox: what is to be told, written with the run that it is about; what has been told stays for a while.
CREATE TABLE deliveries (
    id text COLLATE "C" PRIMARY KEY,
    webhook_id text NOT NULL,
    run_id text NOT NULL,
    event text NOT NULL,
    body text NOT NULL,
    at bigint NOT NULL,
    state text NOT NULL,
    attempts integer NOT NULL,
    next_at bigint,
    status integer,
    error text,
    settled_at bigint
);

CREATE INDEX deliveries_due ON deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

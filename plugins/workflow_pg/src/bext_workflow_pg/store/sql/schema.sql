-- What a connection reaches, and how. `schema` is where the tables are made; another pid than the connection's own tells
-- of a pooler in between, which may hand each transaction to another session.
-- name: surroundings
SELECT
    current_schema() AS schema,
    (SELECT oid::bigint FROM pg_namespace WHERE nspname = current_schema()) AS schema_number,
    current_setting('server_version_num')::integer AS version,
    current_setting('server_encoding') AS encoding,
    current_setting('synchronous_commit') AS synchronous_commit,
    pg_backend_pid() AS pid,
    to_regclass('schema_version') IS NOT NULL AS migrated;

-- name: survey
SELECT
    current_setting('server_version') AS version,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now,
    (
        SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
    ) AS bytes;

-- name: version
SELECT coalesce(max(version), 0) FROM schema_version;

-- One at a time in this schema, until the transaction ends.
-- name: alone
SELECT pg_advisory_xact_lock($1);

-- name: versions
CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY);

-- name: migrated
INSERT INTO schema_version (version) VALUES ($1);

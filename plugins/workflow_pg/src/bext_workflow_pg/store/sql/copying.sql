-- Whoever wants to join waits, and so does another copy.
-- name: alone
LOCK TABLE hosts IN EXCLUSIVE MODE;

-- name: hosts
SELECT EXISTS (SELECT 1 FROM hosts WHERE expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint);

-- The numbers go on behind those that were given out.
-- name: numbers
SELECT setval(pg_get_serial_sequence('runs', 'rid'), coalesce((SELECT max(rid) FROM runs), 0) + 1, false),
    setval(pg_get_serial_sequence('audit', 'id'), coalesce((SELECT max(id) FROM audit), 0) + 1, false);

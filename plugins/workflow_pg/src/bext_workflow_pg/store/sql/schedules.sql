-- name: schedules
SELECT * FROM schedules ORDER BY id;

-- One amendment of a schedule at a time, also while it has no row yet.
-- name: lock_schedule
SELECT pg_advisory_xact_lock($1, hashtext($2));

-- name: schedule
SELECT * FROM schedules WHERE id = $1;

-- name: save_schedule
INSERT INTO schedules (id, paused, rule, handled, buffered, last_slot, last_result, last_run_id, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO UPDATE SET
    paused = excluded.paused, rule = excluded.rule, handled = excluded.handled, buffered = excluded.buffered,
    last_slot = excluded.last_slot, last_result = excluded.last_result, last_run_id = excluded.last_run_id,
    updated_at = excluded.updated_at;

-- name: schedules
SELECT * FROM schedules ORDER BY id;

-- name: schedule
SELECT * FROM schedules WHERE id = ?;

-- name: save_schedule
INSERT OR REPLACE INTO schedules (
    id, paused, rule, handled, buffered, last_slot, last_result, last_run_id, updated_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

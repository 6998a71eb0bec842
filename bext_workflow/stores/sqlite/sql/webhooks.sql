-- name: webhooks
SELECT * FROM webhooks ORDER BY id;

-- name: save_webhook
INSERT OR REPLACE INTO webhooks (
    id, url, events, workflows, secret, created_at, created_by, removed_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: save_delivery
INSERT OR REPLACE INTO deliveries (
    id, webhook_id, run_id, event, body, at, state, attempts, next_at, status, error, settled_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: due_deliveries
SELECT id FROM deliveries WHERE next_at <= ? ORDER BY next_at LIMIT ?;

-- name: take_delivery
UPDATE deliveries SET attempts = attempts + 1, next_at = ? WHERE id = ?;

-- name: delivery
SELECT * FROM deliveries WHERE id = ?;

-- name: deliveries
SELECT * FROM deliveries
WHERE id < :before
    AND (:webhook_id IS NULL OR webhook_id = :webhook_id)
    AND (:run_id IS NULL OR run_id = :run_id)
    AND (:state IS NULL OR state = :state)
ORDER BY id DESC LIMIT :limit;

-- name: prune_deliveries
DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE settled_at < ? ORDER BY settled_at LIMIT ?);

-- name: webhooks
SELECT * FROM webhooks ORDER BY id;

-- One amendment at a time; who reads meanwhile is not held up.
-- name: lock_webhooks
LOCK TABLE webhooks IN SHARE ROW EXCLUSIVE MODE;

-- name: save_webhook
INSERT INTO webhooks (id, url, events, workflows, secret, created_at, created_by, removed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET
    url = excluded.url, events = excluded.events, workflows = excluded.workflows, secret = excluded.secret,
    created_at = excluded.created_at, created_by = excluded.created_by, removed_at = excluded.removed_at;

-- name: keep_deliveries
INSERT INTO deliveries (
    id, webhook_id, run_id, event, body, at, state, attempts, next_at, status, error, settled_at
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::integer[],
    $9::bigint[], $10::integer[], $11::text[], $12::bigint[]
)
ON CONFLICT (id) DO UPDATE SET
    state = excluded.state, attempts = excluded.attempts, next_at = excluded.next_at, status = excluded.status,
    error = excluded.error, settled_at = excluded.settled_at;

-- name: take_deliveries
WITH due AS (
    SELECT id FROM deliveries WHERE next_at <= $1 ORDER BY next_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE deliveries SET attempts = attempts + 1, next_at = $2 FROM due WHERE deliveries.id = due.id RETURNING deliveries.*;

-- name: delivery
SELECT * FROM deliveries WHERE id = $1 FOR UPDATE;

-- name: deliveries
SELECT * FROM deliveries
WHERE id < $1
    AND ($3::text IS NULL OR webhook_id = $3) AND ($4::text IS NULL OR run_id = $4) AND ($5::text IS NULL OR state = $5)
ORDER BY id DESC LIMIT $2;

-- name: prune_deliveries
WITH old AS (
    DELETE FROM deliveries WHERE id IN (
        SELECT id FROM deliveries WHERE settled_at < $1 ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING id
)
SELECT count(*) FROM old;

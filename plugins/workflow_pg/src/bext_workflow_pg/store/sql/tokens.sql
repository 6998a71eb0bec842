-- name: tokens
SELECT * FROM tokens ORDER BY id;

-- One amendment at a time; who reads meanwhile is not held up.
-- name: lock_tokens
LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE;

-- name: save_token
INSERT INTO tokens (id, name, digest, scopes, roles, created_at, created_by, expires_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, digest = excluded.digest, scopes = excluded.scopes, roles = excluded.roles,
    created_at = excluded.created_at, created_by = excluded.created_by, expires_at = excluded.expires_at,
    revoked_at = excluded.revoked_at;

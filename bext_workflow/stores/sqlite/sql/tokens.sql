-- name: tokens
SELECT * FROM tokens ORDER BY id;

-- name: save_token
INSERT OR REPLACE INTO tokens (
    id, name, digest, scopes, roles, created_at, created_by, expires_at, revoked_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: Balance :one
SELECT balance FROM accounts WHERE id = $1;

-- name: SetBalance :exec
UPDATE accounts SET balance = $2 WHERE id = $1;

-- name: AddEntry :exec
INSERT INTO entries (account, amount) VALUES ($1, $2);

-- name: Entries :many
SELECT amount FROM entries WHERE account = $1 ORDER BY id;

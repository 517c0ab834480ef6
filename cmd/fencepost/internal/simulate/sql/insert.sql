-- $1 id, $2 balance: an account without writes.
INSERT INTO "main".accounts (id, balance, increments, number, holder) VALUES ($1, $2, '', 0, '')

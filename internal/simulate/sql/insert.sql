-- $1 id, $2 balance: an account that nobody has written to.
INSERT INTO "main".accounts (id, balance, increments, number, holder) VALUES ($1, $2, '', 0, '')

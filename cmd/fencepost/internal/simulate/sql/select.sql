-- $1 id
SELECT id, balance, increments, number, holder FROM "main".accounts WHERE id = $1

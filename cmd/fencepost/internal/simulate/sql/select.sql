-- $1 id
SELECT balance, increments, number, holder FROM "main".accounts WHERE id = $1

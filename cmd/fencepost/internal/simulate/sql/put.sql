-- $1 id, $2 balance, $3 increments, $4 number, $5 holder: the whole row, as its writer computed it from what it read.
INSERT INTO "main".accounts (id, balance, increments, number, holder) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET balance = $2, increments = $3, number = $4, holder = $5

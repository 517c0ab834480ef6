-- $1 id, $2 balance, $3 increments, $4 number, $5 holder: the whole row, as its writer computed it from what it read.
UPDATE "main".accounts SET balance = $2, increments = $3, number = $4, holder = $5 WHERE id = $1

-- $1 and $2 the key as text, $3 number, $4 holder
DELETE FROM "table" AS t
 WHERE /* own */

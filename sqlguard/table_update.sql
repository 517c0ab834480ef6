-- $1 and $2 the key as text, $3 number, $4 holder, $5 … the values of the set. Without any, it raises the row's mark.
-- "own" is the condition of fence.go on the row t, "mark" its assignments: observe-only mode has others there.
UPDATE "table" AS t SET /* set *//* mark */
 WHERE /* own */

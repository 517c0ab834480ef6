-- $1 and $2 the key as text, $3 number, $4 holder, $5 … the values of the set. If the set
-- is empty, it only raises the row's mark. "own" is the condition of fence.go on the row
-- t, "mark" the assignments. In report-only mode both differ.
UPDATE "table" AS t SET /* set *//* mark */
 WHERE /* own */

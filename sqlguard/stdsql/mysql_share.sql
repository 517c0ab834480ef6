-- The mark as it is, whatever the transaction's snapshot shows, held in place together with others until the transaction
-- ends. It waits for whoever is raising it. As the first statement of a transaction it comes before the snapshot: only a
-- SELECT that does not lock takes one. (FOR SHARE is not MariaDB's.)
SELECT number, holder FROM fencepost_marks WHERE resource = x'{resource}' LOCK IN SHARE MODE

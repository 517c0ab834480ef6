-- Reads the current mark, whatever the transaction's snapshot is, and share-locks it
-- until the transaction ends. It waits for a transaction that is raising the mark. As a
-- transaction's first statement it precedes the snapshot, which only a non-locking SELECT
-- takes. MariaDB has no FOR SHARE. @fencepost_engine is NULL in a session that was not
-- checked: see mysql.go.
SELECT number, holder, @fencepost_engine FROM fencepost_marks WHERE resource = x'{resource}' LOCK IN SHARE MODE

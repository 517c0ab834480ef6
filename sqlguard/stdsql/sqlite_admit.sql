-- Compares the token with the mark, or with the floor if there is no mark, and raises the
-- mark, in one statement. ?1 resource, ?2 number, ?3 holder.
--
-- If one row was changed, the token is admitted. If none was, it is refused, and the mark
-- cannot change before the transaction ends. The mark's own holder writes the same
-- values: a transaction that begins with a write takes SQLite's write lock before its
-- snapshot. If it began with a read, its first write could fail with
-- SQLITE_BUSY_SNAPSHOT.
INSERT INTO fencepost_marks (resource, number, holder)
SELECT ?1, ?2, ?3
WHERE ?2 >= (SELECT number FROM fencepost_floor) OR EXISTS (SELECT 1 FROM fencepost_marks WHERE resource = ?1)
ON CONFLICT (resource) DO UPDATE SET number = excluded.number, holder = excluded.holder
WHERE fencepost_marks.number < excluded.number
   OR fencepost_marks.number = excluded.number AND fencepost_marks.holder = excluded.holder

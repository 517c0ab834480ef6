-- Locks the marks of the resources {resources} that are still below the cutoff {1}, and returns these resources. A mark that
-- another transaction has locked, because it writes under the mark, is skipped. The index keeps the server from locking
-- other rows.
SELECT m.resource FROM fencepost_marks m FORCE INDEX (PRIMARY)
 WHERE m.resource IN ({resources}) AND m.number < {1} FOR UPDATE SKIP LOCKED

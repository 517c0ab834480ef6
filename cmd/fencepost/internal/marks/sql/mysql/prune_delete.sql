-- Deletes the marks of {resources} below the cutoff {1}. Without the index the server may read the whole table, and wait for
-- marks that were skipped. Only this form of DELETE takes an index.
DELETE m FROM fencepost_marks m FORCE INDEX (PRIMARY) WHERE m.resource IN ({resources}) AND m.number < {1}

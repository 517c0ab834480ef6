-- The mark of resource {1}, after every transaction that is admitted under it has ended.
SELECT number, holder FROM fencepost_marks WHERE resource = {1} FOR UPDATE

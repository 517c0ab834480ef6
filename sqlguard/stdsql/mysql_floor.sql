-- The floor applies to resources that have no mark. It is share-locked until the mark is
-- raised, which prevents:
-- 1. A stale token finds no mark and an old floor.
-- 2. An operator raises the floor and prunes the mark that was made meanwhile.
-- 3. The stale token is inserted.
SELECT number FROM fencepost_floor LOCK IN SHARE MODE

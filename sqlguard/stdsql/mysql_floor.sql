-- Judges the resources that have no mark. Held in place until the mark is raised: 1. a stale token finds no mark and an old
-- floor; 2. somebody raises the floor and prunes the mark that was made meanwhile; 3. the stale token is inserted.
SELECT number FROM fencepost_floor LOCK IN SHARE MODE

-- The floor, locked before the mark, as a claim does: in the other order a reset and a claim could deadlock.
SELECT number FROM fencepost_floor LOCK IN SHARE MODE

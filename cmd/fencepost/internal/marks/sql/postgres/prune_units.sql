-- Deletes a batch of units whose time has passed.
SELECT "fencepost".prune_units()

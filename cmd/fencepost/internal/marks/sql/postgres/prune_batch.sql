-- Prunes one batch. $1 cutoff.
SELECT "fencepost".prune($1)

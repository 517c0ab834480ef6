-- $1 cutoff.
SELECT "fencepost".prune($1)

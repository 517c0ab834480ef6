-- The number of marks that are still below the cutoff $1.
SELECT count(*) FROM "fencepost".marks m WHERE m.number < $1

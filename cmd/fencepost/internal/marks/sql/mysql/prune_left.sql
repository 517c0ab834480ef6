-- The number of marks that are still below the cutoff {1}.
SELECT COUNT(*) FROM fencepost_marks m WHERE m.number < {1}

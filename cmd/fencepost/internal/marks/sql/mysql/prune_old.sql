-- Resources after {1} whose marks are below the cutoff {2}, at most {3}. Locks nothing.
SELECT m.resource FROM fencepost_marks m WHERE m.resource > {1} AND m.number < {2} ORDER BY m.resource LIMIT {3}

-- The mark that has refused a token, or the floor, which has no holder. ?1 resource.
SELECT coalesce(m.number, f.number), coalesce(m.holder, '')
FROM fencepost_floor f LEFT JOIN fencepost_marks m ON m.resource = ?1

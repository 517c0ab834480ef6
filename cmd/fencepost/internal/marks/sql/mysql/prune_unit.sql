-- Deletes the unit {2} of resource {1}. It locks this row only.
DELETE FROM fencepost_units WHERE resource = {1} AND `key` = {2} AND kept_until < UNIX_TIMESTAMP()

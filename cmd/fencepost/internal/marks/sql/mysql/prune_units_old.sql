-- Units whose time has passed, at most {1}. Locks nothing.
SELECT u.resource, u.`key` FROM fencepost_units u WHERE u.kept_until < UNIX_TIMESTAMP() LIMIT {1}

-- $1 name: an empty set.
INSERT INTO sets (name) VALUES ($1)

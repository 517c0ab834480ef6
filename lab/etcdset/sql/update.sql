-- $1 name, $2 members, $3 number, $4 holder: the whole row, computed by its writer from
-- what it read.
UPDATE sets SET members = $2, number = $3, holder = $4 WHERE name = $1

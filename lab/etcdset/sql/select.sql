-- $1 name
SELECT members, number, holder FROM sets WHERE name = $1

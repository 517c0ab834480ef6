-- The number of marks. $1 prefix of the resource.
SELECT count(*) FROM "fencepost".marks m WHERE starts_with(m.resource, $1)

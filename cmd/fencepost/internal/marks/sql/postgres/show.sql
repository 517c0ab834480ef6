-- The floor, the server's clock as a number, and the mark of resource $1, NULL if it has none.
SELECT f.number, "fencepost".number_at(clock_timestamp()), m.number, m.holder
  FROM "fencepost".floor f LEFT JOIN "fencepost".marks m ON m.resource = $1

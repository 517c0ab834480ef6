-- As mysql_raise.sql, of a token below the floor: where there is a mark, it alone decides.
UPDATE fencepost_marks SET number = {number}, holder = x'{holder}' WHERE resource = x'{resource}' AND number < {number}

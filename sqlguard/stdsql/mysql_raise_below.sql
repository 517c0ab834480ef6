-- Like mysql_raise.sql, for a token below the floor: it only raises an existing mark.
UPDATE fencepost_marks SET number = {number}, holder = x'{holder}' WHERE resource = x'{resource}' AND number < {number}

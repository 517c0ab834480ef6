-- Raises the mark of {resource}, which is locked, to the highest of: the mark plus one,
-- the {floor}, and the clock in units of 10 µs since 1970. The clock is read at the start
-- of the statement, so after the wait for the lock. It is UTC, since other zones repeat
-- an hour each year. A replica that runs the statement computes the same number. If no
-- number is left, no row is changed.
UPDATE fencepost_marks
   SET holder = x'{holder}',
       number = GREATEST(number + 1, {floor}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10)
 WHERE resource = x'{resource}'
   AND GREATEST(number + 1, {floor}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10) <= 999999999999999

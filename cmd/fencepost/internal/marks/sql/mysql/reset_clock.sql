-- The server's clock as a number, and the account. A statement of its own, so that the clock is read after the wait for the mark.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10, CURRENT_USER()

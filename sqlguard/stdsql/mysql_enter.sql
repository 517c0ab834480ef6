-- Bounds how long the connection may be idle, in {seconds}, and remembers what it was. SET reads all of it before it writes.
SET @fencepost_wait_timeout = @@SESSION.wait_timeout, SESSION wait_timeout = LEAST(@@SESSION.wait_timeout, {seconds})

-- Bounds the connection's idle time to {seconds} and saves the old value. SET evaluates
-- all expressions before it assigns.
SET @fencepost_wait_timeout = @@SESSION.wait_timeout, SESSION wait_timeout = LEAST(@@SESSION.wait_timeout, {seconds})

-- Takes mysql_enter.sql back.
SET SESSION wait_timeout = @fencepost_wait_timeout

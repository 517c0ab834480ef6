-- Undoes mysql_idle_set.sql.
SET SESSION wait_timeout = @fencepost_wait_timeout

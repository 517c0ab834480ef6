-- Appended to admit.lua, before write.lua: records the unit before anything of the resource is written. Without this a
-- token that is admitted without a write of the mark, as in report-only mode, would write on a full memory.
redis.call('SET', record, fingerprint .. cmsgpack.pack({'failed', 'ERR the script did not end'}), 'PX', keep)

-- Appended to admit.lua, before write.lua. If nothing was written to the mark, as in report-only mode, it records the unit
-- before anything of the resource is written: on a full memory the script ends here.
if token == '' or refused then
  redis.call('SET', record, fingerprint .. cmsgpack.pack({'failed', 'ERR the script did not end'}), 'PX', keep)
end

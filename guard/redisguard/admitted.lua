-- Behind admit.lua, where there is nothing to write.
-- Answers {'admitted'}.
return {'admitted'}

-- Removes the marker of a quorum that was not created.
-- KEYS[1] the marker
-- ARGV[1] its value, without the run id
local marker = redis.call('GET', KEYS[1])
if marker and string.sub(marker, 1, #ARGV[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return {'retracted'}

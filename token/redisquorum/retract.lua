-- Takes a marker back that has not become a quorum's.
-- KEYS[1] the marker
-- ARGV[1] it, without the run
local marker = redis.call('GET', KEYS[1])
if marker and string.sub(marker, 1, #ARGV[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return {'retracted'}

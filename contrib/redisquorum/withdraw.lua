-- Removes the lock of one attempt. An unrecovered server may run this script too.
-- KEYS[1] the lock
-- ARGV[1] the attempt's id, a space and the holder
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return {'withdrawn'}

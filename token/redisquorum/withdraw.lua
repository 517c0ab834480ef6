-- Takes a ballot's lock back, and no other's. A blank server may do that too.
-- KEYS[1] the lock
-- ARGV[1] the ballot, a space and its holder
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return {'withdrawn'}

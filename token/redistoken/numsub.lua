-- Counts the subscriptions to a channel at the master.
-- KEYS[1] the channel; no key has its name
-- ARGV[1] NUMSUB or SHARDNUMSUB
-- Returns the count.
redis.call('DEL', KEYS[1]) -- fails on a replica
return redis.call('PUBSUB', ARGV[1], KEYS[1])[2]

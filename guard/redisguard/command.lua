-- A write that is one command.
-- KEYS[1] its key
-- ARGV[1] its name; the rest are its other arguments
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))

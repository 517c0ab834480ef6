-- A write of one command.
-- KEYS[1] the command's key
-- ARGV[1] the command's name; the rest are its other arguments
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))

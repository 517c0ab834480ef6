-- The write of TxPipelined: each command in turn. As in MULTI, the others run if one fails.
-- ARGV  for each command the number of its words, and the words
-- Returns for each command {'', reply}, or {'failed', message}. An error as such would be the outcome of all.
local replies, at = {}, 1
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  local reply = redis.pcall(unpack(ARGV, at + 1, last))
  if type(reply) == 'table' and reply.err then
    replies[#replies + 1] = {'failed', reply.err}
  else
    replies[#replies + 1] = {'', reply}
  end
  at = last + 1
end
return replies

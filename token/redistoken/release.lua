-- Gives a lock back, for its holder alone: to who waits, or to nobody. The counter stays. A waiter leaves the line by it.
-- KEYS lock, counter, line
-- ARGV[1] who gives back, or leaves
-- ARGV[2] how long the line is kept, in milliseconds; this and the rest may be missing
-- ARGV[3] the member that leaves, or nothing
-- ARGV[4] the member of the asking process that is next, or nothing
-- ARGV[5] its ticket, or nothing
-- ARGV[6] the member of the asking process that is in the line then, or nothing
-- ARGV[7] its ticket, or nothing
-- ARGV[8] 1 if the turn is the process's still: next gets the lock, whoever stands before it
-- Answers 0 where the asker does not have the lock; {number, time, the later member's ticket} where next got it, and is
-- told by this; else 1.
local leaver, next, later = ARGV[3] or '', ARGV[4] or '', ARGV[6] or ''
local turn = owned and ARGV[8] == '1'
if leaver ~= '' then
  redis.call('ZREM', KEYS[3], leaver)
end
if turn then
  redis.call('ZREM', KEYS[3], next)
elseif next ~= '' then
  line_up(next, ARGV[5], ARGV[2])
end
if not owned then
  return 0
end

local holder, number, now
local mine, accept = string.match(next, '^([^\n]+)\n(%d+)')
if turn then
  number, now = mint()
  holder = number and mine
  if holder then
    redis.call('SET', KEYS[1], holder, 'PX', accept)
  end
else
  holder, number, now = dispatch(mine)
end
if not holder then
  redis.call('DEL', KEYS[1])
  return 1
end
if holder ~= mine then
  return 1
end
local ticket = ''
if later ~= '' then
  ticket = line_up(later, ARGV[7], ARGV[2])
end
return {number, now, ticket}

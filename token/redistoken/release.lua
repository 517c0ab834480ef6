-- Releases a lock if the caller is its holder, and hands it to the next waiter if there is one. The counter stays. A
-- waiter that leaves the queue uses this script too.
-- KEYS lock, counter, queue
-- ARGV[1] the holder that releases, or that leaves the queue
-- ARGV[2] the expiry of the queue in milliseconds; this and the rest may be missing
-- ARGV[3] the member that leaves the queue, or empty
-- ARGV[4] the member of the caller's process that is next, or empty
-- ARGV[5] its ticket, or empty
-- ARGV[6] the member of the caller's process that is in the queue after that, or empty
-- ARGV[7] its ticket, or empty
-- ARGV[8] '1' if the process's turn continues: next gets the lock before every other member
-- Returns 0 if the caller does not have the lock; {number, time, the later member's ticket} if next got it, since next
-- receives no other notification; else 1.
local leaver, next, later = ARGV[3] or '', ARGV[4] or '', ARGV[6] or ''
local own_turn = owned and ARGV[8] == '1'
local mine, handoff_ttl = string.match(next, '^([^\n]+)\n(%d+)')
if leaver ~= '' then
  redis.call('ZREM', KEYS[3], leaver)
end
if own_turn then
  redis.call('ZREM', KEYS[3], next)
elseif next ~= '' and current ~= mine then -- else a poll of next was granted in the meantime
  enqueue(next, ARGV[5], ARGV[2])
end
if not owned then
  return 0
end

local holder, number, now
if own_turn then
  number, now = mint()
  holder = number and mine
  if holder then
    redis.call('SET', KEYS[1], holder, 'PX', handoff_ttl)
  end
else
  holder, number, now = hand_off(mine)
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
  ticket = enqueue(later, ARGV[7], ARGV[2])
end
return {number, now, ticket}

-- Begins what follows in every script that may hand a lock to who waits for it.
-- KEYS[1] the lock: its holder, until it expires
-- KEYS[3] the line: members of holder, accept period in milliseconds and inbox, scored by ticket
-- An inbox is 'p' or 's', for PUBLISH or SPUBLISH, and the channel of one process.

-- dispatch gives the lock to the first in line who can be told, and answers its holder, the number and the time; nil
-- where there is nobody, or no number left. me is not told here, but by what the script answers. The accept period is
-- short, so that one who never hears of it holds nobody up for long. The counter goes first: where the second write
-- fails a number is lost, and no lock is left without one.
local function dispatch(me)
  while true do
    local head = redis.call('ZPOPMIN', KEYS[3])[1]
    if not head then
      return nil
    end
    local holder, accept, how, channel = string.match(head, '^([^\n]*)\n(%d+)\n(%l)(.*)$')
    local number, now, text = mint()
    if not number then
      return nil
    end
    redis.call('SET', KEYS[1], holder, 'PX', accept)
    if holder == me then
      return holder, number, now
    end
    -- This comes last: nobody may be told of a lock that is not set, for want of memory or replicas.
    local publish = how == 's' and 'SPUBLISH' or 'PUBLISH'
    if redis.call(publish, channel, text .. string.format('\n%.0f\n', now) .. holder .. '\n' .. KEYS[1]) > 0 then
      return holder, number, now
    end
    redis.call('DEL', KEYS[1]) -- its process has gone
  end
end

-- line_up puts a member into the line for so long, or leaves it where it stands, and answers its ticket. One without a
-- ticket goes to the end: behind the last, even if the clock was set back.
local function line_up(member, ticket, keep)
  if ticket == '' then
    local time = redis.call('TIME')
    local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2] or '0'
    ticket = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1))
  end
  if redis.call('ZADD', KEYS[3], 'NX', ticket, member) == 0 then
    ticket = string.format('%.0f', tonumber(redis.call('ZSCORE', KEYS[3], member)))
  end
  redis.call('PEXPIRE', KEYS[3], keep)
  return ticket
end

-- The functions of every script that may hand a lock to a waiter.
-- KEYS[1] the lock: its holder, until it expires
-- KEYS[3] the queue: members of holder, hand-off ttl in milliseconds and address, scored by ticket
-- An address is 'p' or 's', for PUBLISH or SPUBLISH, and the channel of one process.

-- hand_off hands the lock to the first waiter whose process is subscribed. It returns the waiter's holder, the number
-- and the time, or nil if there is no waiter or no number left. me, the caller, needs no notification, since it reads
-- the script's reply. The hand-off ttl is short, so that a hand-off that the waiter never receives expires quickly. The
-- counter is written first: if the second write fails, a number is unused, but no lock exists without a number.
local function hand_off(me)
  while true do
    local head = redis.call('ZPOPMIN', KEYS[3])[1]
    if not head then
      return nil
    end
    local holder, handoff_ttl, how, channel = string.match(head, '^([^\n]*)\n(%d+)\n(%l)(.*)$')
    local number, now, text = mint()
    if not number then
      return nil
    end
    redis.call('SET', KEYS[1], holder, 'PX', handoff_ttl)
    if holder == me then
      return holder, number, now
    end
    -- PUBLISH comes last: if SET fails, for lack of memory or of replicas, the waiter must not be notified.
    local publish = how == 's' and 'SPUBLISH' or 'PUBLISH'
    if redis.call(publish, channel, text .. string.format('\n%.0f\n', now) .. holder .. '\n' .. KEYS[1]) > 0 then
      return holder, number, now
    end
    redis.call('DEL', KEYS[1]) -- the waiter's process has no subscription
  end
end

-- enqueue adds a member to the queue, or leaves it at its place, and returns its ticket. The queue expires after expiry
-- milliseconds. A member without a ticket is added at the end: behind the last member, even if the clock was set back.
local function enqueue(member, ticket, expiry)
  if ticket == '' then
    local time = redis.call('TIME')
    local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2] or '0'
    ticket = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1))
  end
  if redis.call('ZADD', KEYS[3], 'NX', ticket, member) == 0 then
    ticket = string.format('%.0f', tonumber(redis.call('ZSCORE', KEYS[3], member)))
  end
  redis.call('PEXPIRE', KEYS[3], expiry)
  return ticket
end

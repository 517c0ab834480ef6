-- Appended to write.lua: records the unit as one that did not end, calls the write, and records the outcome.
-- Returns what perform returns. A result that cannot be recorded is a failed write, now and in each repeat.
-- limit is guard.MaxResult.
local limit, depth = 65536, 15

-- nested reports whether more than depth tables are within one another. The server's cmsgpack encodes deeper ones as nil.
local function nested(value, within)
  if type(value) ~= 'table' then
    return false
  elseif within > depth then
    return true
  end
  for _, part in pairs(value) do
    if nested(part, within + 1) then
      return true
    end
  end
  return false
end

local function pack(outcome)
  return fingerprint .. cmsgpack.pack(outcome)
end

-- Whatever becomes of the script, and of what follows it, a repeat finds the unit. On a full memory all ends here, before
-- anything of the resource is written.
local reserved = pack({'failed', 'ERR the script did not end, or its result could not be recorded'})
redis.call('SET', record, reserved, 'PX', keep)

local reply = perform()

-- The script may have left another database, no replication and RESP 3 behind. Redis 5 has no setresp.
pcall(redis.set_repl, redis.REPL_ALL)
pcall(redis.setresp, 2)
local function misplaced()
  return redis.pcall('GET', record) ~= reserved
end
local lost = misplaced()
if lost then
  redis.pcall('SELECT', db)
  lost = misplaced()
end

local function fail(why)
  reply = {'failed', reply[2], 'ERR the script was applied, and its ' .. why}
end
if lost then
  fail('record is in another database, or was overwritten')
elseif nested(reply[3], 1) then
  fail('result is nested too deeply to be recorded')
end
local text = pack({reply[1], reply[3]})
if #text > limit then
  fail('result is longer than can be recorded')
  text = pack({reply[1], reply[3]})
end
local recorded = redis.pcall('SET', record, text, 'PX', keep, lost and 'NX' or 'XX')
if type(recorded) == 'table' and recorded.err then
  return {'failed', reply[2], recorded.err}
end
return reply

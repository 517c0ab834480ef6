-- Appended to write.lua: records the outcome.
-- Returns what write.lua describes. A result that cannot be recorded is a failed write, now and in each repeat.
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

if nested(reply[3], 1) then
  reply = {'failed', refused, 'ERR the script was applied, and its result is nested too deeply to be recorded'}
end
local text = pack({reply[1], reply[3]})
if #text > limit then
  reply = {'failed', refused, 'ERR the script was applied, and its result is longer than can be recorded'}
  text = pack({reply[1], reply[3]})
end
local recorded = redis.pcall('SET', record, text, 'PX', keep)
if recorded.err then
  return {'failed', refused, recorded.err}
end
return reply

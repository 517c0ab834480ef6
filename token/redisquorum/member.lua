-- What every script of a member begins with: is this server one?
-- KEYS[1] its marker, which ends with the run of the server that wrote it
-- KEYS[2] its note: since when it has been blank, in which run
-- ARGV[1] the marker that is expected, without the run
-- ARGV[2] '-' where a marker outlives the run, else ''
local function run()
  local info = redis.call('INFO', 'server')
  local _, at = string.find(info, 'run_id:', 1, true) -- plain: a pattern takes three times as long
  return string.match(info, '^%w+', at + 1)
end

-- A note counts in the run that wrote it alone: what an old snapshot brings back says nothing of this loss.
local function blank()
  local this, time = run(), redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local note = redis.call('GET', KEYS[2])
  if not note or string.match(note, '^(%w+) %d+$') ~= this then
    note = this .. ' ' .. string.format('%.0f', now)
    redis.call('SET', KEYS[2], note)
  end
  return {'blank', now - tonumber(string.match(note, '%d+$')), note}
end

-- Returns nil for a member, else what to answer: {'blank', milliseconds, note} or {'stranger', marker}.
local function standing()
  local marker = redis.call('GET', KEYS[1])
  if marker and string.sub(marker, 1, #ARGV[1]) ~= ARGV[1] then
    return {'stranger', marker}
  end
  if marker and marker == ARGV[1] .. (ARGV[2] == '-' and '-' or run()) then
    return nil
  end
  return blank()
end

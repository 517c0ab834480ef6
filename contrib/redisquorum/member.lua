-- The first part of every script that only a member runs: checks that this server is a member.
-- KEYS[1] its marker, which ends with the run id of the server that wrote it
-- KEYS[2] its note: since when and in which run it has been unrecovered
-- ARGV[1] the expected marker, without the run id
-- ARGV[2] '-' if a marker is valid beyond the run, else ''
local function run_id()
  local info = redis.call('INFO', 'server')
  local _, at = string.find(info, 'run_id:', 1, true) -- plain search; a pattern takes three times as long
  return string.match(info, '^%w+', at + 1)
end

-- A note is valid only in the run that wrote it: a note from an old snapshot does not describe this loss of memory.
local function unrecovered()
  local this, time = run_id(), redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local note = redis.call('GET', KEYS[2])
  if not note or string.match(note, '^(%w+) %d+$') ~= this then
    note = this .. ' ' .. string.format('%.0f', now)
    redis.call('SET', KEYS[2], note)
  end
  return {'unrecovered', now - tonumber(string.match(note, '%d+$')), note}
end

-- Returns the value of a counter, truncated, or '0' if there is none. If the key is not a string, returns its type.
local function counter(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    local kind = redis.call('TYPE', key).ok
    return kind == 'string' and redis.call('GET', key) or 'a ' .. kind -- GET failed for another reason: raise that error
  end
  return string.sub(value or '0', 1, 64)
end

-- Returns nil for a member, and otherwise the reply: {'unrecovered', milliseconds, note} or {'mismatch', marker}.
local function status()
  local marker = redis.call('GET', KEYS[1])
  if marker and string.sub(marker, 1, #ARGV[1]) ~= ARGV[1] then
    return {'mismatch', marker}
  end
  if marker and marker == ARGV[1] .. (ARGV[2] == '-' and '-' or run_id()) then
    return nil
  end
  return unrecovered()
end

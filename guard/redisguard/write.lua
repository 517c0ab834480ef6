-- Behind admit.lua: does the write whose function stands at the very top, where nothing here is visible to it.
-- Answers {'applied', refused or nil, its answer} or {'failed', refused or nil, message}.

-- An error that is part of an answer is an error, however deep. Some versions of go-redis take the whole answer for
-- it, and send the write again.
local function examine(answer)
  if answer.err then
    error(answer)
  end
  for _, part in pairs(answer) do
    if type(part) == 'table' then
      examine(part)
    end
  end
end

local applied, answer = pcall(write)
if applied and type(answer) == 'table' then
  local sound, found = pcall(examine, answer)
  if not sound then
    applied, answer = false, found
  end
end
if applied then
  return {'applied', refused, answer}
end
if type(answer) == 'table' and answer.err then
  answer = answer.err
else
  answer = 'ERR ' .. tostring(answer)
end
return {'failed', refused, answer}

-- Appended to admit.lua. Calls the write, a function at the top of the script, to which these variables are invisible.
-- Returns {'applied', refused or nil, its result} or {'failed', refused or nil, message}.

-- An error anywhere in the result is an error. Some versions of go-redis treat a result that contains one as a failed
-- command, and retry the write.
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

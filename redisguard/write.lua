-- Appended to admit.lua. Calls the write, a function at the top of the script, to which these variables are invisible.
-- Sets reply to {'applied', refused or nil, its result} or {'failed', refused or nil, message}.

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
local reply = {'applied', refused, answer}
if not applied and type(answer) == 'table' and answer.err then
  reply = {'failed', refused, answer.err}
elseif not applied then
  reply = {'failed', refused, 'ERR ' .. tostring(answer)}
end

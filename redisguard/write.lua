-- Appended to admit.lua. perform calls the write, a function at the top of the script, to which these variables are
-- invisible. It returns {'applied', refused or '', its result} or {'failed', refused or '', message}. A boolean would
-- depend on the protocol, which the write may change. A metamethod would run code of the write: none is called.

-- An error anywhere in the result is an error. Some versions of go-redis treat a result that contains one as a failed
-- command, and retry the write. fields reports whether answer is the fields of a RESP 3 map or set: one may be named err.
local function examine(answer, fields)
  if not fields and rawget(answer, 'err') then
    error(answer)
  end
  for name, part in pairs(answer) do
    if type(name) == 'table' then
      examine(name)
    end
    if type(part) == 'table' then
      examine(part, not fields and (name == 'map' or name == 'set'))
    end
  end
end

-- message returns the text of an error. It is called by xpcall: the server's pcall reads the field err of what was thrown,
-- and a metamethod that fails there ends the script, as if it had written nothing.
local function message(thrown)
  local err = type(thrown) == 'table' and rawget(thrown, 'err')
  if type(err) == 'string' then
    return err
  end
  return 'ERR ' .. (type(thrown) == 'string' and thrown or type(thrown))
end

local function perform()
  local applied, answer = xpcall(write, message)
  if applied and type(answer) == 'table' then
    local sound, said = xpcall(function() examine(answer) end, message)
    if not sound then
      applied, answer = false, said
    end
  end
  return {applied and 'applied' or 'failed', refused or '', answer}
end

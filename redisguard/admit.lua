-- Compares a token with the mark, and raises the mark to it. The text that is appended to this one runs if the token
-- is admitted.
-- ARGV[last]   the token, in the form of a mark. Both arguments are removed from ARGV.
-- ARGV[last-1] 'enforce', or 'report': refuses no token, never lowers the mark, and the token may be ''
-- Returns {'refused', mark}.
local token = table.remove(ARGV)
local enforcing = table.remove(ARGV) == 'enforce'

local refused = false
if mark and token ~= '' and token ~= mark then
  local stands = number(mark)
  if not stands then
    return {'corrupt'}
  end
  refused = number(token) <= stands and mark
end
if refused and enforcing then
  return {'refused', mark}
end

-- An equal mark is written too, without a change. A replica, a full memory or a failing disk thus returns its error
-- here, before anything of the resource is written, and a replica admits no token.
if token ~= '' and not refused then
  if token == mark then
    redis.call('SETRANGE', key, 0, '')
  else
    redis.call('SET', key, token)
  end
end

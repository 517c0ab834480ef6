-- Compares a token with the mark, and raises the mark to it. What stands behind this text runs if it is admitted.
-- ARGV[last]   the token, in the form of a mark. Both are taken off ARGV.
-- ARGV[last-1] 'enforce', or 'observe': refuses nobody, never lowers the mark, and the token may be ''
-- Answers {'refused', mark}.
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

-- A mark that stands is written too, with nothing: a replica, a full memory or a disk that fails says so here, before
-- anything of the resource is written, and not once more after that. And no replica admits.
if token ~= '' and not refused then
  if token == mark then
    redis.call('SETRANGE', key, 0, '')
  else
    redis.call('SET', key, token)
  end
end

package redisguard

import (
	"context"
	"errors"
	"strings"
)

// Eval runs a script (https://redis.io/docs/latest/commands/eval) if the token of
// resource in ctx is admitted, in one step with the admission. The script finds
// keys and args in KEYS and ARGV as without a guard, and may return from
// anywhere. It should be the same text each time, with what varies in args: the
// server keeps every text it has seen.
//
// What it returns is converted as by go-redis, except that a script which returns
// nothing, nil or false has the answer nil, and no error. An error in what it
// returns, however deep, is an error.
//
// Redis does not roll back. An error from inside of the script, and one that it
// returns, is [guard.ErrUnknown] beside a [redis.Error]: what the script wrote
// before stays. All else is as in [Guard.Set]: a replica, a full memory and a
// failing disk refuse the write before the script runs, and nothing was applied.
// The server counts the admission as a write of the script, so that SCRIPT KILL
// does not end one that never ends by itself.
//
// A script that begins with a shebang ("#!lua") cannot be put behind an
// admission: that is an error, and nothing is sent. So is a script that is given
// the mark's own key.
func (g *Guard) Eval(ctx context.Context, resource, script string, keys []string, args ...any) (any, error) {
	if strings.HasPrefix(script, "#!") {
		return nil, failed("eval", resource, errors.New("a script with a shebang cannot be guarded"))
	}
	w, err := g.write(ctx, resource)
	if err != nil {
		return nil, err
	}
	w.verb, w.script, w.keys, w.partial = "eval", guarded(script), keys, true
	w.args = g.Client.Pipeline().Eval(ctx, "", nil, args...).Args()[3:] // as go-redis spreads them
	return w.do(ctx)
}

package redisguard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Set is go-redis's Set (https://redis.io/docs/latest/commands/set) of one key, if the
// token of resource in ctx is admitted. value and expiration have the same meaning: zero
// means no expiry, and [redis.KeepTTL] keeps the key's expiry.
//
// If the error is nil the write was applied. If it is [guard.ErrUnknown], the write may
// have been applied: read to find out. Any other error, including a refusal and
// [guard.ErrRetryable], means that nothing was applied. Except by a refusal, the mark may
// be raised even if Set returns an error.
//
// If ctx ends before the write was sent, Set returns the cause, and the write is never
// sent. If ctx ends later, Set returns ErrUnknown and the cause. If the lease is
// lost, a write in progress may take 30 s more.
func (g *Guard) Set(ctx context.Context, resource, key string, value any, expiration time.Duration) error {
	_, err := g.command(ctx, resource, func(p redis.Pipeliner) redis.Cmder {
		return p.Set(ctx, key, value, expiration)
	})
	return err
}

// HSet is go-redis's HSet (https://redis.io/docs/latest/commands/hset), if the token of
// resource in ctx is admitted. It returns the number of new fields. A script can pass on
// at most a few thousand fields; with more, HSet fails and nothing is written. Its errors
// are those of [Guard.Set].
func (g *Guard) HSet(ctx context.Context, resource, key string, values ...any) (int64, error) {
	value, err := g.command(ctx, resource, func(p redis.Pipeliner) redis.Cmder {
		return p.HSet(ctx, key, values...)
	})
	if err != nil {
		return 0, err
	}
	added, ok := value.(int64)
	if !ok {
		return 0, unknown("hset", resource, fmt.Errorf("server answered %v", value))
	}
	return added, nil
}

// command makes a guarded write of the command that put builds. Its first argument must
// be its only key.
func (g *Guard) command(ctx context.Context, resource string, put func(redis.Pipeliner) redis.Cmder) (any, error) {
	w, err := g.write(ctx, resource)
	if err != nil {
		return nil, err
	}
	cmd := put(g.Client.Pipeline()) // never executed
	args := cmd.Args()
	w.verb, w.script, w.keys = cmd.Name(), commandScript, []string{fmt.Sprint(args[1])}
	w.args = append([]any{args[0]}, args[2:]...)
	return w.do(ctx)
}

// Eval runs a script (https://redis.io/docs/latest/commands/eval) if the token of
// resource in ctx is admitted, atomically with the admission. The script gets keys and
// args in KEYS and ARGV as without a guard, and may return from anywhere. Its text should
// be constant, with everything variable in args: the server caches every text it has run.
//
// The result is converted as by go-redis, except that Eval returns nil, and no error, if
// the script returns nothing, nil or, without redis.setresp(3), false. An error reply
// anywhere in the result is returned as an error.
//
// Redis does not roll back. If the script fails, or returns an error, Eval returns
// [guard.ErrUnknown] joined with a [redis.Error]: what the script wrote before stays. All
// other errors are those of [Guard.Set]. On a replica, with a full memory or a failing
// disk, the write is refused before the script runs, and nothing was applied. The server
// counts the admission as a write, so SCRIPT KILL does not stop a script that never ends.
//
// Eval returns an error, and sends nothing, if the script begins with a shebang
// ("#!lua"), or if keys contains the mark's own key.
func (g *Guard) Eval(ctx context.Context, resource, script string, keys []string, args ...any) (any, error) {
	if err := checkScript(script); err != nil {
		return nil, failed("eval", resource, err)
	}
	w, err := g.write(ctx, resource)
	if err != nil {
		return nil, err
	}
	w.verb, w.script, w.keys, w.partial = "eval", guarded(script), keys, true
	w.args = g.flat(ctx, args)
	return w.do(ctx)
}

// flat returns args as a command of go-redis has them.
func (g *Guard) flat(ctx context.Context, args []any) []any {
	return g.Client.Pipeline().Eval(ctx, "", nil, args...).Args()[3:]
}

func checkScript(script string) error {
	if strings.HasPrefix(script, "#!") {
		return errors.New("a script with a shebang cannot be guarded")
	}
	return nil
}

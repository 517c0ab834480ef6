package redisguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// TxPipelined is go-redis's TxPipelined, if the token of resource in ctx is admitted: fn
// queues commands, and one script runs them atomically, with the admission before them.
// It returns the commands, each with its reply. If fn returns an error, or queues
// nothing, TxPipelined sends nothing, and returns fn's error.
//
// As in MULTI, the other commands run if one fails, and Redis does not roll back.
// TxPipelined then returns [guard.ErrUnknown] joined with the error of the first command
// that failed; the Err of each command is its own. All other errors are those of
// [Guard.Set], and become the Err of each command. [redis.Nil] is the Err of a command,
// and no error of TxPipelined. Lua rounds integers of 2^53 and more: such a reply, as of
// IncrBy, is an error of its command too, although the command was applied.
//
// TxPipelined returns an error, and sends nothing, if
//
//   - the type of a command's result is not one of Cmd, StatusCmd, StringCmd, IntCmd,
//     FloatCmd, BoolCmd, SliceCmd, StringSliceCmd and MapStringStringCmd. Use Do, whose
//     result is that of [Guard.Eval];
//   - a command has more than 7,000 words, which is more than a script can pass on;
//   - a command has the mark's own key among its words, as a string or bytes;
//   - fn executes the pipeline.
//
// A command that scripts may not run, such as EVAL or WATCH, or that the server does not
// have, fails alone: in MULTI none would run. One that blocks fails too, or does not block.
// In a Cluster, each command but PUBLISH must have its keys in the mark's slot.
func (g *Guard) TxPipelined(ctx context.Context, resource string, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	w, err := g.write(ctx, resource)
	if err != nil {
		return nil, err
	}
	w.verb, w.script = "txpipelined", pipelineScript
	cmds, err := collect(ctx, fn)
	if err != nil || len(cmds) == 0 {
		return nil, err
	}
	if err = w.queue(cmds); err != nil {
		err = failed(w.verb, resource, err)
	}
	var own error // the first of the commands' own errors
	w.deliver = func(value any) error {
		own = deliver(cmds, value)
		return own
	}
	if err == nil {
		_, err = w.do(ctx)
	}
	if err != nil && own == nil {
		err = fail(cmds, err)
	}
	return cmds, err
}

// fail makes err the error of each command, and returns it.
func fail(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

// queue makes cmds the arguments of the write.
func (w *write) queue(cmds []redis.Cmder) error {
	const most = 7_000 // the server's LUAI_MAXCSTACK is 8,000
	for _, cmd := range cmds {
		words := cmd.Args()
		switch {
		case setter(cmd) == nil:
			return fmt.Errorf("the reply of %s cannot be read as a %T: use Do", cmd.Name(), cmd)
		case len(words) > most:
			return fmt.Errorf("%s has %d words: a script can pass on %d", cmd.Name(), len(words), most)
		case slices.ContainsFunc(words, func(word any) bool { return textOf(word) == w.mark }):
			return fmt.Errorf("%s has the mark's own key", cmd.Name())
		}
		if at := firstKey(cmd.Name()); at > 0 && at < len(words) {
			w.keys = append(w.keys, cmp.Or(textOf(words[at]), fmt.Sprint(words[at])))
		}
		w.args = append(append(w.args, len(words)), words...)
	}
	return nil
}

// textOf returns a word that is a string or bytes, and "" for any other.
func textOf(word any) string {
	switch word := word.(type) {
	case string:
		return word
	case []byte:
		return string(word)
	case *string: // go-redis 9.0 has no such words
		if word != nil {
			return *word
		}
	}
	return ""
}

// firstKey returns the position of a command's first key, or 0 if it has none, or one that
// varies. It tells the server, which compares keys with the user's permissions, and go-redis
// in a Cluster, which keys the script uses.
func firstKey(name string) int {
	switch name {
	case "cluster", "command", "echo", "flushall", "flushdb", "info", "keys", "lolwut", "ping", "publish", "pubsub",
		"scan", "select", "spublish", "swapdb", "time", "xread", "xreadgroup":
		return 0
	case "bitop", "lmpop", "memory", "msetex", "object", "sintercard", "xgroup", "xinfo", "zdiff", "zinter", "zintercard",
		"zmpop", "zunion":
		return 2
	case "blmpop", "bzmpop":
		return 3
	}
	return 1
}

// deliver gives each command its reply, and returns the first error reply.
func deliver(cmds []redis.Cmder, value any) (first error) {
	replies, _ := value.([]any)
	if len(replies) != len(cmds) {
		return fail(cmds, fmt.Errorf("server answered %v", value))
	}
	for i, cmd := range cmds {
		err := fill(cmd, parse(replies[i]))
		cmd.SetErr(err)
		if first == nil && !errors.Is(err, redis.Nil) {
			first = err
		}
	}
	return first
}

// fill sets the result of cmd, or returns the error of its reply.
func fill(cmd redis.Cmder, r reply) error {
	said := r.values[0]
	number, _ := said.(int64)
	switch {
	case r.word == "failed":
		text, _ := said.(string)
		return scriptError(text)
	case number >= 1<<53 || number <= -1<<53: // Lua has floating-point numbers only
		return fmt.Errorf("server answered %d to %s, which Lua may have rounded", number, cmd.Name())
	case setter(cmd)(said):
		return nil
	case said == nil:
		return redis.Nil
	}
	return fmt.Errorf("server answered %v to %s, which is no %T", said, cmd.Name(), cmd)
}

// setter returns the function that makes a reply the result of cmd, as go-redis does, and
// reports whether the reply has the right type. It is nil if there is none for cmd.
func setter(cmd redis.Cmder) func(reply any) bool {
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		return sets(cmd.SetVal)
	case *redis.StatusCmd:
		return sets(cmd.SetVal)
	case *redis.StringCmd:
		return sets(cmd.SetVal)
	case *redis.IntCmd:
		return sets(cmd.SetVal)
	case *redis.SliceCmd:
		return sets(cmd.SetVal)
	case *redis.FloatCmd:
		return func(reply any) bool {
			text, _ := reply.(string)
			value, err := strconv.ParseFloat(text, 64)
			cmd.SetVal(value)
			return err == nil
		}
	case *redis.BoolCmd:
		return func(reply any) bool { // 1, or of SET with NX: OK, or nil
			cmd.SetVal(reply == int64(1) || reply == "OK")
			return cmd.Val() || reply == int64(0) || reply == nil
		}
	case *redis.StringSliceCmd:
		return func(reply any) bool {
			texts, ok := stringsOf(reply)
			cmd.SetVal(texts)
			return ok
		}
	case *redis.MapStringStringCmd:
		return func(reply any) bool {
			texts, ok := stringsOf(reply)
			fields := make(map[string]string, len(texts)/2)
			for pair := range slices.Chunk(texts, 2) {
				fields[pair[0]] = pair[len(pair)-1]
			}
			cmd.SetVal(fields)
			return ok && len(texts)%2 == 0
		}
	}
	return nil
}

// sets returns the setter of a type whose results are replies as they are.
func sets[T any](set func(T)) func(reply any) bool {
	return func(reply any) bool {
		value, ok := reply.(T)
		if ok {
			set(value)
		}
		return ok
	}
}

// stringsOf returns the strings of an array. A nil in it is an empty string.
func stringsOf(reply any) (texts []string, ok bool) {
	parts, ok := reply.([]any)
	texts = make([]string, len(parts))
	for i, part := range parts {
		text, isText := part.(string)
		texts[i], ok = text, ok && (isText || part == nil)
	}
	return texts, ok
}

// collector is a pipeline that is never executed.
type collector struct {
	redis.Pipeliner
	executed bool
}

var errExecuted = errors.New("redisguard: TxPipelined executes the pipeline itself, after fn")

// collect returns the commands that fn queues.
func collect(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	c := &collector{Pipeliner: offline().Pipeline()}
	if err := fn(c); err != nil {
		return nil, err
	}
	if c.executed {
		return nil, errExecuted
	}
	return c.Pipeliner.Exec(ctx)
}

// offline returns a client that sends nothing: its pipelines return their commands. It is
// closed, so that it leaves no goroutine.
var offline = sync.OnceValue(func() *redis.Client {
	client := redis.NewClient(&redis.Options{})
	client.AddHook(unsentHook{})
	client.Close()
	return client
})

type unsentHook struct{}

func (unsentHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (unsentHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (unsentHook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return nil }
}

func (c *collector) Exec(context.Context) ([]redis.Cmder, error) {
	c.executed = true
	return nil, errExecuted
}

func (c *collector) Pipelined(ctx context.Context, _ func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	return c.Exec(ctx)
}

func (c *collector) TxPipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	return c.Pipelined(ctx, fn)
}
func (c *collector) Pipeline() redis.Pipeliner   { return c }
func (c *collector) TxPipeline() redis.Pipeliner { return c }

package redispoint_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/simulations/redispoint"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// clients returns a client with a hook, one without, and the prefix of the test's keys.
func clients(t *testing.T) (hooked, plain *redis.Client, prefix string) {
	t.Helper()
	plain, prefix = testenv.Redis(t)
	hooked = redis.NewClient(plain.Options())
	t.Cleanup(func() { _ = hooked.Close() }) // a test may have closed it
	hooked.AddHook(new(redispoint.Hook))
	return hooked, plain, prefix
}

func tokenOf(ctx context.Context) (token.Token, error) { return token.FromContext(ctx, resource) }

// way is a use of a client. The key contains "0" before it.
type way func(ctx context.Context, c redis.UniversalClient, key string) error

func command(args ...any) way {
	return func(ctx context.Context, c redis.UniversalClient, key string) error {
		args := slices.Clone(args)
		for i := range args {
			if args[i] == "KEY" {
				args[i] = key
			}
		}
		return c.Do(ctx, args...).Err()
	}
}

func pipeline(send func(redis.UniversalClient) func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error), ways ...[]any) way {
	return func(ctx context.Context, c redis.UniversalClient, key string) error {
		_, err := send(c)(ctx, func(p redis.Pipeliner) error {
			for _, args := range ways {
				p.Do(ctx, append([]any{args[0], key}, args[1:]...)...)
			}
			return nil
		})
		return err
	}
}

func piped(ways ...[]any) way {
	return pipeline(func(c redis.UniversalClient) func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error) {
		return c.Pipelined
	}, ways...)
}

func multi(ways ...[]any) way {
	return pipeline(func(c redis.UniversalClient) func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error) {
		return c.TxPipelined
	}, ways...)
}

// watched writes in a MULTI if the key has not changed since meanwhile was called.
func watched(meanwhile way) way {
	return func(ctx context.Context, c redis.UniversalClient, key string) error {
		return c.Watch(ctx, func(tx *redis.Tx) error {
			if err := errors.Join(tx.Get(ctx, key).Err(), meanwhile(context.Background(), c, key)); err != nil {
				return err
			}
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Set(ctx, key, 1, 0); return nil })
			return err
		}, key)
	}
}

var set, get, incr = []any{"set", 1}, []any{"get"}, []any{"incr"}

// ways of using a client.
var ways = map[string]struct {
	do    way
	fails bool
	steps []string
	wrote string
}{
	"SET":                      {command("set", "KEY", 1), false, []string{"begin applied"}, "1"},
	"GET":                      {command("get", "KEY"), false, []string{"begin undone"}, "0"},
	"GET of nothing":           {command("get", "none"), true, []string{"begin undone"}, "0"},
	"PING":                     {command("ping"), false, nil, "0"},
	"a write that is refused":  {command("rpush", "KEY", 1), true, []string{"begin undone"}, "0"},
	"DEL of nothing":           {command("del", "none"), false, []string{"begin applied"}, "0"},
	"SET NX that sets nothing": {command("set", "KEY", 1, "nx"), true, []string{"begin unknown"}, "0"},
	"SetNX that sets nothing": {func(ctx context.Context, c redis.UniversalClient, key string) error {
		return c.SetNX(ctx, key, 1, time.Minute).Err()
	}, false, []string{"begin unknown"}, "0"},
	"SetXX": {func(ctx context.Context, c redis.UniversalClient, key string) error {
		return c.SetXX(ctx, key, 1, time.Minute).Err()
	}, false, []string{"begin applied"}, "1"},
	"a script that returns 0, as an IntCmd": {func(ctx context.Context, c redis.UniversalClient, key string) error {
		return c.Process(ctx, redis.NewIntCmd(ctx, "eval", "return 0", 1, key))
	}, false, []string{"begin unknown"}, "0"},
	"a script that returns false, as a BoolCmd": {func(ctx context.Context, c redis.UniversalClient, key string) error {
		return c.Process(ctx, redis.NewBoolCmd(ctx, "eval", "return false", 1, key))
	}, false, []string{"begin unknown"}, "0"},
	"a pipeline":                   {piped(get, set, get), false, []string{"begin applied"}, "1"},
	"a pipeline that reads":        {piped(get, get), false, []string{"begin undone"}, "0"},
	"a pipeline that fails partly": {piped([]any{"rpush", 1}, set), true, []string{"begin applied"}, "1"},
	"a pipeline that fails":        {piped([]any{"rpush", 1}, get), true, []string{"begin undone"}, "0"},
	"MULTI":                        {multi(get, incr), false, []string{"begin applied"}, "1"},
	"MULTI that reads":             {multi(get), false, []string{"begin undone"}, "0"},
	"MULTI that is not executed":   {multi(incr, []any{"set"}), true, []string{"begin undone"}, "0"},
	"WATCH": {watched(func(context.Context, redis.UniversalClient, string) error { return nil }),
		false, []string{"begin undone", "begin undone", "begin applied"}, "1"},
	"WATCH of a key that changes": {watched(command("set", "KEY", 7)),
		true, []string{"begin undone", "begin undone", "begin undone"}, "7"},
	"a script":                  {command("eval", setTo+" and 1", 1, "KEY", 1), false, []string{"begin applied"}, "1"},
	"a script that returns 0":   {command("eval", "return 0", 1, "KEY"), false, []string{"begin unknown"}, "0"},
	"a script without a result": {command("eval", increment[len("return "):], 1, "KEY"), true, []string{"begin unknown"}, "1"},
	"a script that fails":       {command("eval", increment[len("return "):]+" error('x')", 1, "KEY"), true, []string{"begin unknown"}, "1"},
	"a script of a list":        {command("eval", "return {0}", 1, "KEY"), false, []string{"begin applied"}, "0"},
	"a script that may not write": {command("eval_ro", "return redis.call('GET', KEYS[1])", 1, "KEY"),
		false, []string{"begin undone"}, "0"},
	"a script that is sent again": {func(ctx context.Context, c redis.UniversalClient, key string) error {
		return redis.NewScript("return redis.call('INCR', KEYS[1]) -- "+key).Run(ctx, c, []string{key}).Err()
	}, false, []string{"begin undone", "begin applied"}, "1"},
	"a script that cannot be loaded": {command("evalsha", strings.Repeat("0", 40), 1, "KEY"), true, []string{"begin undone"}, "0"},
}

func TestHook(t *testing.T) {
	t.Parallel()
	client, plain, prefix := clients(t)
	for kind, c := range map[string]redis.UniversalClient{"a Client": client, "a ClusterClient": cluster(t, plain)} {
		for name, w := range ways {
			t.Run(name+" by "+kind, func(t *testing.T) {
				t.Parallel()
				key := prefix + ":" + name + kind
				require.NoError(t, plain.Set(t.Context(), key, 0, 0).Err())
				var h hooktest.Record
				err := w.do(h.Listen(t.Context()), c, key)
				require.Equal(t, w.fails, err != nil, "%v", err)
				require.Equal(t, w.steps, h.Transactions())
				require.Equal(t, w.wrote, plain.Get(t.Context(), key).Val())
			})
		}
	}
}

// cluster returns a client of a cluster of one node. It has one hook, and so have its nodes'
// clients, which Watch uses.
func cluster(t *testing.T, node *redis.Client) *redis.ClusterClient {
	t.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{
		ReadTimeout: time.Minute,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: node.Options().Addr}}}}, nil
		},
	})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	hook := new(redispoint.Hook)
	c.AddHook(hook)
	c.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	return c
}

// A request that gets no connection may have any outcome.
func TestABrokenConnection(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]string{
		"SET": "begin unknown", "GET": "begin undone", "a pipeline": "begin unknown", "MULTI": "begin unknown",
		"a pipeline that reads": "begin undone", "a script": "begin unknown",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _, prefix := clients(t)
			require.NoError(t, client.Close())
			var h hooktest.Record
			require.Error(t, ways[name].do(h.Listen(t.Context()), client, prefix))
			require.Equal(t, []string{steps}, h.Transactions())
		})
	}
}

// A guard's transactions are reported once, under the guard's key.
func TestUnderAGuard(t *testing.T) {
	t.Parallel()
	client, plain, prefix := clients(t)
	g := &redisguard.Guard{Client: client, MarkKey: func(name string) string { return prefix + ":mark:{" + name + "}" }}
	key := prefix + ":{account/42}"
	tok := token.Token{Resource: resource, Number: 33, Holder: "a"}
	for _, c := range []struct {
		name   string
		number int64
		do     func(ctx context.Context) error
		is     error
		steps  []string
	}{
		{"Admit", 33, func(ctx context.Context) error { return g.Admit(ctx, tok) }, nil, []string{"begin undone"}},
		{"Set", 33, func(ctx context.Context) error { return g.Set(ctx, resource, key, 1, 0) }, nil, []string{"begin applied"}},
		{"Set, refused", 32, func(ctx context.Context) error { return g.Set(ctx, resource, key, 1, 0) }, guard.ErrStale, []string{"begin undone"}},
		{"Eval", 33, func(ctx context.Context) error {
			_, err := g.Eval(ctx, resource, "return 0", []string{key})
			return err
		}, nil, []string{"begin applied"}},
		{"Once", 33, func(ctx context.Context) error {
			_, err := g.Once(ctx, resource, guard.Unit{Key: "7"}, increment, []string{key})
			return err
		}, nil, []string{"begin applied"}},
		{"Once, again", 33, func(ctx context.Context) error {
			_, err := g.Once(ctx, resource, guard.Unit{Key: "7"}, increment, []string{key})
			return err
		}, nil, []string{"begin undone"}},
		{"Mint", 33, func(ctx context.Context) error { _, err := g.Mint(ctx, resource, "b"); return err }, nil, []string{"begin undone"}},
	} {
		var h hooktest.Record
		ctx := token.NewContext(h.Listen(t.Context()), token.Token{Resource: resource, Number: c.number, Holder: "a"})
		require.ErrorIs(t, c.do(ctx), c.is, c.name)
		require.Equal(t, c.steps, h.Transactions(), c.name)
		sent := notes(&h)
		require.NotEmpty(t, sent, c.name)
		require.Equal(t, h.Keys[0], sent[0].Key, c.name)
		require.Equal(t, "go-redis", sent[0].Driver)
	}
	require.Equal(t, "2", plain.Get(t.Context(), key).Val(), "the guard's commands were sent")
}

// notes returns the notes of what was sent.
func notes(h *hooktest.Record) (sent []failpoint.Sent) {
	for _, fact := range h.Notes {
		if note, is := fact.(failpoint.Sent); is {
			sent = append(sent, note)
		}
	}
	return sent
}

// The commands of a lock are not the program's, whatever their context.
func TestALockHasNoSteps(t *testing.T) {
	t.Parallel()
	client, _, prefix := clients(t)
	unheard := watch(t)
	issuer := &redistoken.Issuer{Client: client, Prefix: prefix}
	t.Cleanup(func() { require.NoError(t, issuer.Close()) })
	var h hooktest.Record
	for _, ctx := range []context.Context{h.Listen(t.Context()), t.Context()} {
		for range 2 { // the second has a waiter
			grant, err := issuer.Acquire(ctx, resource, "a", time.Minute)
			require.NoError(t, err)
			_, err = issuer.Renew(ctx, grant.Token, time.Minute)
			require.NoError(t, err)
			waits := make(chan error, 1)
			go func() {
				next, err := issuer.Wait(ctx, resource, "b", time.Minute)
				waits <- errors.Join(err, issuer.Release(ctx, next.Token))
			}()
			require.NoError(t, issuer.Release(ctx, grant.Token))
			require.NoError(t, <-waits)
		}
	}
	require.Empty(t, h.Steps)
	require.Empty(t, h.Notes)
	require.Empty(t, unheard(prefix))
}

// watch returns a function that returns the writes so far under contexts of no simulation
// that contain text. Other tests of the process have their own.
func watch(t *testing.T) func(text string) []failpoint.Unheard {
	var mu sync.Mutex
	var heard []failpoint.Unheard
	t.Cleanup(failpoint.WatchUnheard(func(write failpoint.Unheard) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, write)
	}))
	return func(text string) []failpoint.Unheard {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(slices.Clone(heard), func(write failpoint.Unheard) bool { return !strings.Contains(write.SQL, text) })
	}
}

// A write under a context of no simulation is only counted, as one of the clients that have
// the same Hook.
func TestWritesUnderAnotherContextAreNoted(t *testing.T) {
	t.Parallel()
	client, plain, prefix := clients(t)
	unheard := watch(t)
	other := redis.NewClient(plain.Options())
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	other.AddHook(new(redispoint.Hook))
	for _, name := range []string{"SET", "GET", "a pipeline", "PING"} {
		require.NoError(t, ways[name].do(context.Background(), client, prefix))
	}
	var h hooktest.Record
	require.NoError(t, ways["SET"].do(failpoint.Untraced(t.Context()), client, prefix))
	require.NoError(t, ways["SET"].do(h.Listen(t.Context()), client, prefix))
	require.NoError(t, ways["SET"].do(context.Background(), other, prefix))
	heard := unheard(prefix)
	require.Len(t, heard, 3)
	source := notes(&h)[0].Source
	for i, write := range heard {
		require.Equal(t, "set "+prefix+" 1", write.SQL)
		require.Equal(t, i < 2, write.Source == source)
	}
}

// The caller gets an error after a write whose reply a simulation drops, and before a write
// that it drops.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SET", "a pipeline", "MULTI", "a script", "a script without a result", "GET", "a pipeline that reads"} {
		for wrote, h := range map[string]*hooktest.Record{"1": {DropReplies: true}, "0": {DropCommits: true}} {
			t.Run(name+", which leaves "+wrote, func(t *testing.T) {
				t.Parallel()
				client, plain, prefix := clients(t)
				require.NoError(t, plain.Set(t.Context(), prefix, 0, 0).Err())
				err := ways[name].do(h.Listen(t.Context()), client, prefix)
				if ways[name].wrote == "0" { // a read
					require.NoError(t, err)
					require.Empty(t, slices.Concat(h.ReplyKeys, h.CommitKeys))
					return
				}
				require.ErrorIs(t, err, failpoint.ErrLost)
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, []string{"begin unknown"}, h.Transactions())
				require.Equal(t, []any{h.Keys[0]}, h.CommitKeys)
				require.Equal(t, wrote, plain.Get(t.Context(), prefix).Val())
			})
		}
	}
}

// Outcomes that this server, or this version of go-redis, does not have.
func TestTheOutcomeOfAPipeline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      error
		commands []string
		steps    string
	}{
		"a module's command":                  {nil, []string{"json.set"}, "begin unknown"},
		"a module's read":                     {nil, []string{"JSON.GET"}, "begin undone"},
		"a write beside a module's":           {nil, []string{"set", "json.set", "get"}, "begin applied"},
		"an error that its commands lack":     {io.EOF, []string{"get", "set"}, "begin unknown"},
		"an error reply to one that has none": {redis.TxFailedErr, []string{"get", "set"}, "begin applied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := new(redispoint.Hook).ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return c.err })
			var cmds []redis.Cmder
			for _, name := range c.commands {
				cmds = append(cmds, redis.NewCmd(t.Context(), name, "a"))
			}
			var h hooktest.Record
			require.Equal(t, c.err, hook(h.Listen(t.Context()), cmds))
			require.Equal(t, []string{c.steps}, h.Transactions())
		})
	}
}

func TestACommandThatPassesTwoHooksIsNotedOnce(t *testing.T) {
	t.Parallel()
	_, plain, prefix := clients(t)
	var h hooktest.Record
	require.NoError(t, ways["SET"].do(h.Listen(t.Context()), cluster(t, plain), prefix))
	require.Len(t, notes(&h), 1)
}

func TestAWriteThatIsRefusedHasNoAnswerToLose(t *testing.T) {
	t.Parallel()
	client, plain, prefix := clients(t)
	require.NoError(t, plain.Set(t.Context(), prefix, 0, 0).Err())
	h := hooktest.Record{DropReplies: true}
	err := ways["a write that is refused"].do(h.Listen(t.Context()), client, prefix)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Empty(t, h.ReplyKeys)
}

func TestEachCommandOfAPipelineGetsTheError(t *testing.T) {
	t.Parallel()
	client, _, prefix := clients(t)
	h := hooktest.Record{DropReplies: true}
	ctx := h.Listen(t.Context())
	cmds, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, prefix, 1, 0)
		p.Get(ctx, prefix)
		return nil
	})
	require.ErrorIs(t, err, failpoint.ErrLost)
	require.Len(t, cmds, 2)
	for _, cmd := range cmds {
		require.ErrorIs(t, cmd.Err(), failpoint.ErrLost)
	}
}

// While a writer is stopped at a step, other clients see what the step's name means.
func TestAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SET", "a pipeline", "MULTI", "a script"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, plain, prefix := clients(t)
			require.NoError(t, plain.Set(t.Context(), prefix, 0, 0).Err())
			seen := map[failpoint.Step]string{}
			h := hooktest.Record{OnStep: func(step failpoint.Step) { seen[step] = plain.Get(t.Context(), prefix).Val() }}
			require.NoError(t, ways[name].do(h.Listen(t.Context()), client, prefix))
			require.Equal(t, map[failpoint.Step]string{failpoint.Begin: "0", failpoint.Applied: "1"}, seen)
		})
	}
}

func TestWithoutAListenerNothingIsAllocated(t *testing.T) {
	hook, ctx, sent := new(redispoint.Hook), t.Context(), 0
	one := hook.ProcessHook(func(context.Context, redis.Cmder) error { sent++; return nil })
	many := hook.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { sent++; return nil })
	cmd := redis.NewCmd(ctx, "set", "a", 1)
	cmds := []redis.Cmder{cmd}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = one(ctx, cmd), many(ctx, cmds) }))
	require.Equal(t, 202, sent)
}

// The list of reads has no command that the server knows as a write, and all that it knows as
// reads.
func TestTheServerKnowsTheReadsAsReads(t *testing.T) {
	t.Parallel()
	client, _ := testenv.Redis(t)
	commands, err := client.Command(t.Context()).Result()
	require.NoError(t, err)
	require.NotEmpty(t, commands)
	for name, command := range commands {
		switch {
		case slices.Contains(command.Flags, "write"):
			require.True(t, redispoint.Writes(name), name)
		case command.ReadOnly && !strings.Contains(name, "."):
			require.False(t, redispoint.Writes(name), name)
		}
	}
}

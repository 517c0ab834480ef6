package redisguard_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

func TestReportOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told []error
	e.guard.DangerouslyReportOnly = true
	e.guard.Hooks = guard.Hooks{
		Refused:  func(_ context.Context, err error) { t.Errorf("refused: %v", err) },
		Reported: func(_ context.Context, err error) { told = append(told, err) },
	}
	mark := guard.Mark{Number: 33, Holder: "a"}
	for verb, do := range doors(e.guard, e.key, "x") {
		require.NoError(t, do(with(t.Context(), 33, "a")), verb)
		require.Empty(t, told, verb)
		for _, c := range []struct {
			ctx  context.Context
			want error
		}{
			{with(t.Context(), 32, "b"), &guard.StaleError{Token: tok(32, "b"), Mark: mark}},
			{with(t.Context(), 33, "b"), &guard.StaleError{Token: tok(33, "b"), Mark: mark}},
			{t.Context(), &token.MissingError{Resource: resource}},
			{with(t.Context(), 34, ""), tok(34, "").Validate()},
		} {
			told = nil
			keys := e.doorKeys()
			require.NoError(t, e.client.Del(t.Context(), keys...).Err())
			require.NoError(t, do(c.ctx), verb)
			require.Equal(t, []error{c.want}, told, verb)
			require.EqualValues(t, 1, e.client.Exists(t.Context(), keys...).Val(), "%s: the write was made anyway", verb)
			require.Equal(t, "33 a", e.mark(), "the mark stays")
		}
		told = nil
	}
	require.NoError(t, e.guard.Admit(t.Context(), tok(32, "b")))
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "")))
	require.Len(t, told, 2)
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	require.Equal(t, "34 b", e.mark(), "it rises if the token is admitted")

	told = nil
	_, err := e.guard.Eval(with(t.Context(), 33, "a"), resource, "error('mine')", nil)
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "an error of the script is not the guard's")
	require.Len(t, told, 1)
	require.NoError(t, e.client.Set(t.Context(), e.guard.MarkKey(resource), "none", 0).Err())
	require.ErrorContains(t, e.guard.Set(with(t.Context(), 33, "a"), resource, e.key, "x", 0), "holds no mark")
}

func spare(t *testing.T) *redis.Client { t.Helper(); return testenv.OwnRedis(t).Client() }

// hook records the names of the commands that run scripts.
type hook struct {
	mu   sync.Mutex
	sent []string
	done int
}

func (h *hook) note(cmds ...redis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cmd := range cmds {
		if strings.HasPrefix(cmd.Name(), "eval") {
			h.sent = append(h.sent, cmd.Name())
		}
	}
}

func (h *hook) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.sent)
}

func (h *hook) end(cmds []redis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.HasPrefix(cmds[0].Name(), "eval") {
		h.done++
	}
}

// returned is the number of guarded writes that go-redis has returned from.
func (h *hook) returned() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done
}

func (h *hook) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = nil
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h.note(cmd); return next(ctx, cmd) }
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.note(cmds...)
		defer h.end(cmds)
		return next(ctx, cmds)
	}
}

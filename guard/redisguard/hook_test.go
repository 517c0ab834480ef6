package redisguard_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/testenv"
)

func spare(t *testing.T) *redis.Client { t.Helper(); return testenv.SpareRedis(t) }

// hook remembers the names of the commands that run scripts.
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

// returned is how many guarded writes go-redis has returned from.
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

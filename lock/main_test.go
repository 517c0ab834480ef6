package lock_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/lock"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(warnings{slog.DiscardHandler})) // many tests cause warnings
	leaktest.Main(m)
}

// warnings keeps the records of a context that has a *[]string under its key.
type warnings struct{ slog.Handler }

type warningsKey struct{}

func (warnings) Enabled(context.Context, slog.Level) bool { return true }

func (warnings) Handle(ctx context.Context, r slog.Record) error {
	if kept, ok := ctx.Value(warningsKey{}).(*[]string); ok {
		*kept = append(*kept, r.Message)
	}
	return nil
}

// bubble runs test in fake time, and returns when all of its goroutines have ended. A
// test that does not end panics at once.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		endless := time.AfterFunc(3*time.Hour, func() { panic(t.Name() + " does not end") })
		defer endless.Stop()
		test(t)
	})
}

// noWait returns a copy of l that does not wait.
func noWait(l *lock.Locker) *lock.Locker {
	tried := *l
	tried.NoWait = true
	return &tried
}

package lock_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/lock"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // many tests cause warnings
	leaktest.Main(m)
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

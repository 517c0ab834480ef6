package token_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // warnings are what many tests bring about
	goleak.VerifyTestMain(m)
}

// bubble runs test in fake time, where it is over only when all of its
// goroutines are. A test that does not end panics, in no time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		endless := time.AfterFunc(3*time.Hour, func() { panic(t.Name() + " does not end") })
		defer endless.Stop()
		test(t)
	})
}

package leaktest

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// suite is a test run that returns an exit status.
type suite func() int

func (s suite) Run() int { return s() }

// lingering starts a goroutine that ends when end is closed.
func lingering(end <-chan struct{}) suite {
	return func() int {
		go linger(end)
		return 0
	}
}

func linger(end <-chan struct{}) { <-end }

func TestAGoroutineThatStaysIsReported(t *testing.T) {
	var out bytes.Buffer
	end := make(chan struct{})
	defer close(end)
	code := run(lingering(end), &out, time.Millisecond, func() error { return goleak.Find() })
	require.Equal(t, 1, code)
	require.Contains(t, out.String(), "leaktest.linger")
}

func TestAGoroutineThatEndsLateIsWaitedFor(t *testing.T) {
	var out bytes.Buffer
	end, finds := make(chan struct{}), 0
	find := func() error {
		leak := goleak.Find()
		if finds++; finds == 2 {
			require.ErrorContains(t, leak, "leaktest.linger")
			close(end)
		}
		return leak
	}
	require.Zero(t, run(lingering(end), &out, 2*time.Minute, find))
	require.Empty(t, out.String())
	require.Greater(t, finds, 2)
}

func TestFailedTestsAreNotSearchedForLeaks(t *testing.T) {
	var out bytes.Buffer
	find := func() error { t.Error("searched"); return nil }
	require.Equal(t, 2, run(suite(func() int { return 2 }), &out, time.Minute, find))
	require.Empty(t, out.String())
}

package subprocess_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
)

func TestMessagesGoBothWays(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	for _, text := range []string{"one", "two\nlines"} {
		said, err := p.Ask(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, text, said)
	}
}

func TestAnIdleChildEndsByItself(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	require.NoError(t, p.Send("unread"))
	p.End(context.Background())
	_, err := p.Next(t.Context())
	require.ErrorContains(t, err, "the echo is gone: exit status 0")
}

func TestAMissingProgramIsAnError(t *testing.T) {
	t.Parallel()
	_, err := subprocess.Start[string](subprocess.Command{Name: "absent", Argv: []string{"/nonexistent"}})
	require.ErrorContains(t, err, "subprocess: absent: ")
}

func TestAnErrorHasTheExitStatusOfTheChild(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	require.NoError(t, p.Send("last words"))
	require.NoError(t, p.Send("die"))
	<-p.Ended()
	said, err := p.Next(t.Context())
	require.NoError(t, err, "its reports are received after its end")
	require.Equal(t, "last words", said)
	_, err = p.Next(t.Context())
	require.ErrorContains(t, err, "subprocess: the echo is gone: exit status 1: out of luck")
	require.ErrorContains(t, p.Send("anybody?"), "is gone")
	require.ErrorContains(t, p.Stands(t.Context()), "is gone")
}

func TestTheReportsOfAKilledChildAreKept(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	for range 100 { // more than the parent keeps
		require.NoError(t, p.Send("word"))
	}
	for range 100 {
		_, err := p.Next(t.Context())
		require.NoError(t, err)
	}
	p.Kill()
	p.Kill()
	_, err := p.Next(t.Context())
	require.ErrorContains(t, err, "is gone")
}

// A process that a child leaves behind has its standard error, possibly for ever.
func TestAChildIsGoneBeforeItsOwnChildren(t *testing.T) {
	t.Parallel()
	theirs, stay, err := os.Pipe()
	require.NoError(t, err)
	p := start(t, "leaves", theirs)
	require.NoError(t, theirs.Close())
	select {
	case <-p.Ended():
	case <-time.After(2 * time.Minute):
		t.Error("the end of the child waits for the survivor")
	}
	require.NoError(t, stay.Close())
}

func TestAChildPausesAndEndsWithItsInput(t *testing.T) {
	t.Parallel()
	for _, how := range pauses {
		c, err := subprocess.Self("the pauser", "pauses")
		require.NoError(t, err)
		p, first, err := subprocess.Open[string](t.Context(), c, how)
		require.NoError(t, err)
		defer p.End(t.Context())
		require.Equal(t, "pauses", first)
		require.NoError(t, p.Suspend(t.Context(), how))
		require.NoError(t, p.Resume(how))
		p.CloseInput()
		var rest []string
		require.NoError(t, p.Listen(func(text string) { rest = append(rest, text) }))
		require.Equal(t, []string{"resumed", "closed"}, rest)
	}
}

var pauses = []subprocess.Pause{subprocess.BestPause(), subprocess.InProcess}

func TestAStepThatHangsSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := subprocess.Within(t.Context(), time.Millisecond)
	defer cancel()
	_, err := start(t, "silent").Next(ctx)
	require.ErrorContains(t, err, "subprocess: nothing happened within 1ms")
}

// If a child does not become ready, Open returns an error and no child.
func TestOpenReturnsWhyTheChildIsNotReady(t *testing.T) {
	t.Parallel()
	c, err := subprocess.Self("the echo", "echo")
	require.NoError(t, err)
	_, _, err = subprocess.Open[string](t.Context(), c, "die")
	require.ErrorContains(t, err, "the echo is gone: exit status 1: out of luck")
	c, err = subprocess.Self("the unknown", "unknown")
	require.NoError(t, err)
	_, _, err = subprocess.Open[string](t.Context(), c, "hello")
	require.ErrorContains(t, err, "no such role: unknown")
}

func TestListenReturnsHowTheChildEnded(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	require.NoError(t, p.Send("die"))
	require.ErrorContains(t, p.Listen(func(string) {}), "exit status 1: out of luck")
}

// This test is not parallel: it sets the environment.
func TestAChildDoesNotSleepBeforeItEnds(t *testing.T) {
	t.Setenv("GORACE", "halt_on_error=1")
	said, err := start(t, "race").Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "atexit_sleep_ms=0 halt_on_error=1", said)
}

var errEnough = errors.New("enough")

func TestTail(t *testing.T) {
	t.Parallel()
	require.Empty(t, subprocess.Tail())
	require.Equal(t, "one two", subprocess.Tail("one\n", "\ttwo\n"))
	long := subprocess.Tail(strings.Repeat("x", 10_000), "the end")
	require.Len(t, long, 4096)
	require.True(t, strings.HasSuffix(long, "xthe end"))
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := start(t, "silent")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	_, err := p.Next(ctx)
	require.Equal(t, errEnough, err)
	require.Equal(t, errEnough, p.Stands(ctx))
	p.End(ctx) // ctx has ended, so End does not wait: this child never exits by itself
	_, err = p.Next(t.Context())
	require.ErrorContains(t, err, "is gone")
}

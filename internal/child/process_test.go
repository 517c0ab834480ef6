package child_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
)

func TestAChildHearsAndSays(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	for _, text := range []string{"one", "two\nlines"} {
		require.NoError(t, p.Send(text))
		said, err := p.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, text, said)
	}
}

func TestAnIdleChildEndsByItself(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	require.NoError(t, p.Send("unheard"))
	p.End(context.Background())
	_, err := p.Next(t.Context())
	require.ErrorContains(t, err, "the echo is gone: exit status 0")
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := child.Start[string](child.Command{Name: "nobody", Argv: []string{"/nonexistent"}})
	require.ErrorContains(t, err, "child: nobody: ")
}

func TestAnErrorSaysHowTheChildWent(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	require.NoError(t, p.Send("last words"))
	require.NoError(t, p.Send("die"))
	<-p.Ended()
	said, err := p.Next(t.Context())
	require.NoError(t, err, "what it said is heard after its death")
	require.Equal(t, "last words", said)
	_, err = p.Next(t.Context())
	require.ErrorContains(t, err, "child: the echo is gone: exit status 3: out of luck")
	require.ErrorContains(t, p.Send("anybody?"), "is gone")
	require.ErrorContains(t, p.Stands(t.Context()), "is gone")
}

func TestAKilledChildWasHeard(t *testing.T) {
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

func TestAContextEndsWithTheChild(t *testing.T) {
	t.Parallel()
	p := start(t, "echo")
	ctx, cancel := p.Alive(t.Context())
	defer cancel()
	require.NoError(t, ctx.Err())
	require.NoError(t, p.Send("die"))
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), "child: the echo is gone: exit status 3: out of luck")
	cancelled, cancel := start(t, "deaf").Alive(t.Context())
	cancel()
	require.ErrorIs(t, context.Cause(cancelled), context.Canceled)
}

// What a child leaves behind has its standard error, and may have it for ever.
func TestAChildIsGoneBeforeItsOwnChildren(t *testing.T) {
	t.Parallel()
	theirs, stay, err := os.Pipe()
	require.NoError(t, err)
	p := start(t, "leaves", theirs)
	require.NoError(t, theirs.Close())
	select {
	case <-p.Ended():
	case <-time.After(time.Minute):
		t.Error("it waits for the survivor")
	}
	require.NoError(t, stay.Close())
}

// Not parallel: it sets the environment.
func TestAChildDoesNotSleepBeforeItEnds(t *testing.T) {
	t.Setenv("GORACE", "halt_on_error=1")
	said, err := start(t, "race").Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "atexit_sleep_ms=0 halt_on_error=1", said)
}

var errEnough = errors.New("enough")

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := start(t, "deaf")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	_, err := p.Next(ctx)
	require.Equal(t, errEnough, err)
	require.Equal(t, errEnough, p.Stands(ctx))
	began := time.Now()
	p.End(ctx)
	require.Less(t, time.Since(began), 4*time.Second, "no farewell for whom nobody waits")
	_, err = p.Next(t.Context())
	require.ErrorContains(t, err, "is gone")
}

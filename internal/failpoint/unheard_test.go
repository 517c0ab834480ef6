package failpoint_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
)

// Not parallel: a watcher receives the writes of the whole process.
func TestUnheardWritesAreThoseOfNoSimulation(t *testing.T) {
	var first, second []failpoint.Unheard
	stopFirst := failpoint.WatchUnheard(func(u failpoint.Unheard) { first = append(first, u) })
	stopSecond := failpoint.WatchUnheard(func(u failpoint.Unheard) { second = append(second, u) })
	write := failpoint.Unheard{Source: "db", SQL: "UPDATE accounts SET balance = 0"}
	require.True(t, failpoint.IsUnheard(t.Context()))
	failpoint.NoteUnheard(write)
	var h hooktest.Record
	for _, ctx := range []context.Context{h.Listen(t.Context()), failpoint.Untraced(t.Context()), failpoint.Unguarded(t.Context())} {
		require.False(t, failpoint.IsUnheard(ctx))
	}
	stopSecond()
	failpoint.NoteUnheard(write)
	stopFirst()
	require.False(t, failpoint.IsUnheard(t.Context()), "no simulation is running")
	failpoint.NoteUnheard(write)
	require.Equal(t, []failpoint.Unheard{write, write}, first)
	require.Equal(t, []failpoint.Unheard{write}, second)
}

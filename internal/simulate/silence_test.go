package simulate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
	"github.com/fencepost/fencepost/internal/testenv"
)

// While A stands the database hears nothing of it; before and after, and from B
// meanwhile, it does.
func TestNoStatementOfAStoppedWriterArrives(t *testing.T) {
	t.Parallel()
	server, address := startProxy(t, testenv.PostgresURL(t))
	var events []simulate.Event
	o := options(t)
	o.Postgres = address
	o.Observe = func(at simulate.Progress) { events = append(events, at.Event) }
	_, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)

	var asked, paused simulate.Event
	pauses := 0
	for _, e := range events {
		switch {
		case e.Writer == "A" && e.Kind == simulate.Asks:
			asked = e
		case e.Kind == simulate.Pauses:
			paused = e
			require.NotZero(t, server.between("A", asked.At, e.At), "A read before")
		case e.Kind == simulate.Continued:
			pauses++
			require.Zero(t, server.between("A", paused.At, e.At), "A was stopped")
			require.NotZero(t, server.between("B", paused.At, e.At), "B wrote meanwhile")
		case e.Writer == "A" && e.Kind == simulate.Accepted:
			require.NotZero(t, server.between("A", paused.At, e.At), "A wrote afterwards")
		}
	}
	require.Equal(t, 4*rounds, pauses)
}

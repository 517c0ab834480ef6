package process_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
)

// Where Do takes the lock itself, what it gets ends with the lease. No twin of
// it would write too late, if it heard that the lease is lost: nor would anybody
// be put to the test who hears of it a moment too late.
//
// hazard G1
func TestDoMayTakeTheLockItself(t *testing.T) {
	t.Parallel()
	for _, pause := range []process.Pause{process.SIGSTOP, process.StopTheWorld} {
		t.Run(string(pause), func(t *testing.T) {
			t.Parallel()
			c, _ := newLedger(t)
			// The first "begin" is that of Do's own claim.
			r := process.Run(t, process.Options{Subject: "re-enters", Conf: c.String(), Pause: pause, At: "begin", Nth: 2, Rounds: 10})
			requireFenced(t, r)
		})
	}
}

// Who is refused before it comes to its write came too late, too.
func TestARefusalBeforeTheWriteCounts(t *testing.T) {
	t.Parallel()
	r := process.Run(t, process.Options{Subject: "http", Conf: newService(t).String(), At: "request", Rounds: 5})
	require.Equal(t, []string{"request", "request"}, requests(r.Guarded.Steps), "the first only reads")
	require.Equal(t, 5, r.Guarded.Refused)
	require.Equal(t, 5, r.Twin.Accepted)
	require.Zero(t, r.Twin.Lost, "it has read what B wrote")
}

func requests(steps []string) (found []string) {
	for _, step := range steps {
		if step == "request" {
			found = append(found, step)
		}
	}
	return found
}

// B is given the time that it needs: it is not blocked if its work is long.
func TestWorkMayTakeItsTime(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	c.Work = time.Second
	requireFenced(t, process.Run(t, process.Options{Subject: "postgres", Conf: c.String(), At: computed, Rounds: 1}))
}

package failures_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory is what the servers know after the failure.
type memory int

const (
	perhaps memory = iota // all, or not
	keeps                 // all
	forgets               // not what they did last
)

// survive plays the rounds, each on servers of its own. Where the servers have
// forgotten what they did last, a clock that was ahead leaves marks that only
// healing gets past.
func survive(t *testing.T, m memory, start func(*testing.T) system) {
	t.Helper()
	sum := summary{name: strings.ReplaceAll(t.Name(), "_", " ")}
	for n := range rounds(t) {
		ahead := n%2 == 1
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			r := newRound(t, true)
			r.play(start(t), ahead)
			r.judge()
			switch {
			case m == keeps:
				require.False(t, r.grants.fell(), "the issuer had kept its memory")
			case m == forgets && ahead:
				require.True(t, r.grants.fell(), "this round must force numbers that fall")
				require.Positive(t, r.grants.healings(), "nobody healed the issuer")
			}
			require.Less(t, r.healed, promised+slack, "after the servers were back")
			sum.add(r)
		})
	}
	t.Log(sum.String())
}

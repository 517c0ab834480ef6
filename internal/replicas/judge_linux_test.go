package replicas_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

// figures are what was counted in the rounds of one story in one way.
type figures struct {
	rounds    int
	late      map[history.Outcome]int // of A's write after B's
	falls     int                     // rounds in which applied numbers fell, by the ledger
	corrupted int                     // rounds in which the resource broke its rules
	broken    []history.Violation
	took      time.Duration
}

// String returns a line of a table.
func (f figures) String() string {
	return fmt.Sprintf("%4d rounds, late writes: %4d accepted, %4d refused, %4d unknown; %4d rounds corrupted, %5.1f s",
		f.rounds, f.late[history.Accepted], f.late[history.Refused], f.late[history.Unknown], f.corrupted, f.took.Seconds())
}

// run carries out and judges the rounds.
func (s *stage) run(t *testing.T, way string, about story, rounds int) figures {
	t.Helper()
	began := time.Now()
	f := figures{rounds: rounds, late: map[history.Outcome]int{}}
	var h history.History
	first := s.open(t, rounds)
	for n := range rounds {
		ops, late, p := s.round(t, way, about, first+n)
		f.late[late]++
		if p.falls > 0 {
			f.falls++
		}
		h.Ops = append(h.Ops, s.trace(ops, p)...)
	}
	var err error
	f.broken, err = history.Check(h)
	require.NoError(t, err)
	corrupted := map[string]bool{}
	for _, v := range f.broken {
		corrupted[v.Resource] = true
	}
	f.corrupted, f.took = len(corrupted), time.Since(began)
	t.Logf("%-50s %-10s %s", about, way, f)
	return f
}

// trace adds to what the callers were told what the ledger remembers. Each write
// is a unit of its own.
func (s *stage) trace(ops []history.Op, p page) (all []history.Op) {
	for _, op := range ops {
		if op.Kind == history.Write {
			op.Traced, op.Counted = true, p.times[op.Writer]
			unit := op
			unit.Kind = history.Unit
			all = append(all, unit)
		}
		all = append(all, op)
	}
	return append(all, history.Op{
		Kind: history.Read, Writer: "test", Resource: ops[0].Resource, Outcome: history.Accepted,
		Began: s.now(), Ended: s.now(), Counted: p.balance,
	})
}

package simulations_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
)

func TestADoThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for says, end := range map[string]func(){
		"A panicked: out of order":        func() { panic(errOutOfOrder) },
		"A ended its goroutine, as t.Fai": runtime.Goexit,
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			l := &ledger{marks: new(guard.Memory)}
			s := l.subject()
			var units atomic.Int64
			s.Do = func(ctx context.Context) error {
				if units.Add(1) == 9 {
					end()
				}
				return l.Do(ctx)
			}
			err := simulations.Examine(t, s)
			require.ErrorContains(t, err, "2_holders/A_sleeps_at_")
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "its steps: acquire, granted, claimed, do")
			require.NotErrorAs(t, err, new(*simulations.Verdict))
			require.Equal(t, says[2:10] == "panicked", errors.Is(err, errOutOfOrder))
		})
	}
}

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/token"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(*testing.T) guard.Store { return new(guard.Memory) })
}

func TestMemoryReturnsItsMarks(t *testing.T) {
	t.Parallel()
	var memory guard.Memory
	require.Zero(t, memory.Mark(account))
	require.NoError(t, memory.Admit(t.Context(), tok(33, "a")))
	require.Error(t, memory.Admit(t.Context(), tok(32, "b")))
	require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, memory.Mark(account))
	require.Zero(t, memory.Mark("account/43"))
}

func TestMemoryRefusesAnEndedContext(t *testing.T) {
	t.Parallel()
	var memory guard.Memory
	cause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	require.ErrorIs(t, memory.Admit(ctx, tok(33, "a")), cause)
	require.Zero(t, memory.Mark(account))
}

func TestMemoryDecidesUnderALostLease(t *testing.T) {
	t.Parallel()
	var memory guard.Memory
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&token.LostError{Token: tok(33, "a")})
	require.NoError(t, memory.Admit(ctx, tok(33, "a")), "there is no newer token")
	require.NoError(t, memory.Admit(t.Context(), tok(34, "b")))
	err := memory.Admit(ctx, tok(33, "a"))
	require.ErrorIs(t, err, guard.ErrStale)
	require.ErrorIs(t, err, token.ErrLost)
}

func TestMarksOnlyRiseWhileManyWrite(t *testing.T) {
	t.Parallel()
	const writers, writes = 8, 2_000
	var (
		memory guard.Memory
		minted atomic.Int64
		all    sync.WaitGroup
	)
	for writer := range writers {
		all.Go(func() {
			holder := fmt.Sprint("writer-", writer)
			for range writes {
				before := memory.Mark(account)
				tok := tok(minted.Add(1), holder)
				err := memory.Admit(t.Context(), tok)
				after := memory.Mark(account)
				if after.Number < before.Number || after.Number < tok.Number || (err != nil && after.Number == tok.Number) {
					t.Errorf("%+v, then %s: %v, then %+v", before, tok, err, after)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, writers*writes, memory.Mark(account).Number, "the greatest number was admitted")
}

// hazard G10
func TestWhatForgetsAdmitsTheStale(t *testing.T) {
	t.Parallel()
	var memory guard.Memory
	require.NoError(t, memory.Admit(t.Context(), tok(34, "b")))
	restarted := new(guard.Memory)
	require.NoError(t, restarted.Admit(t.Context(), tok(33, "a")), "memory that ends with the process is no guard beyond it")

	for i := range 20_000 {
		other := tok(1, "c")
		other.Resource = fmt.Sprint("account/", 100+i)
		require.NoError(t, memory.Admit(t.Context(), other))
	}
	require.ErrorIs(t, memory.Admit(t.Context(), tok(33, "a")), guard.ErrStale, "within the process nothing is evicted")
}

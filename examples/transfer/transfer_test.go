package transfer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/transfer"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// hazard L9
func TestTransfersInOppositeOrdersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	bank := s.open(nil).bank
	bank.Locks.TTL = 10 * time.Second
	failed := make(chan error)
	for n := range int64(6) {
		from, to := 42+n%3, 42+(n+1+n/3)%3 // each pair in both directions
		go func() {
			for range 10 {
				if err := bank.Transfer(t.Context(), from, to, 1); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range 6 {
		require.NoError(t, <-failed)
	}
	s.requireBalances(100, 100, 100)
}

// The naive twin takes its locks in the order in which the money goes.
func TestLocksInOppositeOrdersWaitForEachOther(t *testing.T) {
	t.Parallel()
	locks := newServers(t).open(nil).bank.Locks
	locks.TTL, locks.Wait = 10*time.Second, 200*time.Millisecond
	var both sync.WaitGroup
	both.Add(2)
	waited, over := make(chan error), make(chan struct{})
	nested := func(first, second string) {
		_ = locks.Hold(t.Context(), first, func(ctx context.Context) error {
			both.Done()
			both.Wait()
			waited <- locks.Hold(ctx, second, func(context.Context) error { return nil })
			<-over // as long as they wait
			return nil
		})
	}
	go nested("account/42", "account/43")
	go nested("account/43", "account/42")
	for range 2 {
		require.ErrorIs(t, <-waited, token.ErrWaitEnded)
	}
	close(over)
}

// A transfer from 42 to 43 is stopped; its locks run out; one from 43 to 44 is
// made; it goes on.
func TestAStoppedTransferIsRefused(t *testing.T) {
	t.Parallel()
	overtaken := func(s *servers, at *sleep) program {
		other := s.open(nil).bank
		at.meanwhile = func() { require.NoError(s, other.Transfer(s.Context(), 43, 44, 50)) }
		return s.open(at)
	}
	t.Run("before it reads", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		err := overtaken(s, &sleep{nth: 3}).bank.Transfer(t.Context(), 42, 43, 10) // behind two claims
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost)
		s.requireBalances(100, 50, 150)
	})
	t.Run("between its read and its write", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		err := overtaken(s, &sleep{statement: "UPDATE accounts"}).bank.Transfer(t.Context(), 42, 43, 10)
		require.ErrorIs(t, err, token.ErrLost)
		s.requireBalances(100, 50, 150)
	})
	t.Run("and without the fence it makes money", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		err := unguarded(t.Context(), overtaken(s, &sleep{statement: "UPDATE accounts"}), 42, 43, 10)
		require.ErrorIs(t, err, token.ErrLost, "it is told when it has written")
		s.requireBalances(90, 110, 150)
	})
}

// unguarded is the same transfer under the same locks.
func unguarded(ctx context.Context, p program, from, to, amount int64) error {
	locks := &token.Locker{Issuer: p.bank.Locks.Issuer, TTL: ttl}
	return locks.HoldAll(ctx, []string{transfer.Account(from), transfer.Account(to)}, func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx) // nobody asks between two statements
		return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return transfer.Move(ctx, tx, from, to, amount) })
	})
}

func TestATransferThatCannotBeMadeChangesNothing(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	bank := s.open(nil).bank
	require.ErrorIs(t, bank.Transfer(t.Context(), 42, 43, 101), transfer.ErrFunds)
	require.ErrorIs(t, bank.Transfer(t.Context(), 42, 42, 1), pgx.ErrNoRows)
	require.ErrorIs(t, bank.Transfer(t.Context(), 42, 45, 1), pgx.ErrNoRows)
	s.requireBalances(100, 100, 100)
}

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
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// hazard L9
func TestTransfersInOppositeOrdersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	bank := s.open(nil).bank
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

// The naive twin takes its locks in the direction of the transfer.
func TestLocksInOppositeOrdersWaitForEachOther(t *testing.T) {
	t.Parallel()
	locks := newServers(t).open(nil).bank.Locks
	impatient := *locks
	impatient.WaitTimeout = 200 * time.Millisecond
	var both sync.WaitGroup
	both.Add(2)
	waited, over := make(chan error), make(chan struct{})
	nested := func(first, second string) {
		_ = locks.Hold(t.Context(), first, func(ctx context.Context) error {
			both.Done()
			both.Wait()
			waited <- impatient.Hold(ctx, second, func(context.Context) error { return nil })
			<-over // for as long as they wait
			return nil
		})
	}
	go nested("account/42", "account/43")
	go nested("account/43", "account/42")
	for range 2 {
		require.ErrorIs(t, <-waited, lock.ErrWaitTimeout)
	}
	close(over)
}

// A transfer from 42 to 43 is stopped, its locks expire, a transfer from 43 to 44 is
// made, and the first one continues.
func TestAStoppedTransferIsRefused(t *testing.T) {
	t.Parallel()
	// overtaken starts again with a longer TTL if the locks expired before the program
	// was stopped, as they do on a slow machine.
	overtaken := func(s *servers, nth int32, statement string, transfer func(p program) error) error {
		other := s.open(nil).bank
		for ttl := 200 * time.Millisecond; ; ttl *= 2 {
			at := &sleep{nth: nth, statement: statement, ttl: ttl, meanwhile: func() {
				require.NoError(s, other.Transfer(s.Context(), 43, 44, 50))
			}}
			err := transfer(s.open(at))
			require.Error(s, err)
			if at.over.Load() {
				return err
			}
		}
	}
	guarded := func(p program) error { return p.bank.Transfer(t.Context(), 42, 43, 10) }
	t.Run("before it reads", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		err := overtaken(s, 3, "", guarded) // after two claims
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost)
		s.requireBalances(100, 50, 150)
	})
	t.Run("between its read and its write", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		err := overtaken(s, 0, "UPDATE accounts", guarded)
		require.ErrorIs(t, err, token.ErrLost)
		s.requireBalances(100, 50, 150)
	})
	t.Run("without the fence it makes money", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		err := overtaken(s, 0, "UPDATE accounts", func(p program) error { return unguarded(t.Context(), p, 42, 43, 10) })
		require.ErrorIs(t, err, token.ErrLost, "the loss is reported after the write")
		s.requireBalances(90, 110, 150)
	})
}

// unguarded is the same transfer under the same locks.
func unguarded(ctx context.Context, p program, from, to, amount int64) error {
	locks := &lock.Locker{Issuer: p.bank.Locks.Issuer, TTL: p.bank.Locks.TTL, DangerouslyWithoutClaim: true}
	return locks.HoldAll(ctx, []string{transfer.Account(from), transfer.Account(to)}, func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx) // it does not check the lease between two statements
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

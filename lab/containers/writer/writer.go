package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lab/containers/wire"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const (
	selects = "SELECT balance FROM accounts WHERE resource = $1"
	sets    = "UPDATE accounts SET balance = $2 WHERE resource = $1"
)

// writer holds one lease at a time, and has at most one open transaction.
type writer struct {
	pool   *pgxpool.Pool
	issuer token.Issuer

	lease  *lock.Lease
	commit chan struct{}
	done   chan error
}

func (w *writer) do(ctx context.Context, o wire.Order) (balance int, err error) {
	fence := &sqlguard.Guard{DB: w.pool, DangerouslyReportOnly: o.Observe, Hooks: guard.Hooks{Reported: func(context.Context, error) {}}}
	switch o.Do {
	case wire.Hold:
		return w.hold(ctx, fence, o)
	case wire.Write:
		_, err = fence.On(o.Resource).Exec(w.lease.Context(), sets, o.Resource, o.Balance)
		return 0, err
	case wire.Begin:
		return 0, w.begin(fence, o)
	case wire.Commit:
		close(w.commit)
		return 0, <-w.done
	case wire.Lost:
		<-w.lease.Context().Done()
		return 0, context.Cause(w.lease.Context())
	}
	return 0, fmt.Errorf("no such order: %s", o.Do)
}

func (w *writer) hold(ctx context.Context, fence *sqlguard.Guard, o wire.Order) (balance int, err error) {
	locker := &lock.Locker{Issuer: w.issuer, Name: "a", TTL: o.TTL, SafetyMargin: o.TTL / 2, Claim: fence.Admit}
	if w.lease, err = locker.Acquire(ctx, o.Resource); err != nil {
		return 0, err
	}
	guarded := fence.On(o.Resource)
	ctx = w.lease.Context()
	if err = guarded.QueryRow(ctx, selects, o.Resource).Scan(&balance); err == nil {
		// This prepares the statements: the next write is one packet.
		_, err = guarded.Exec(ctx, sets, o.Resource, balance)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause // shows the test that the machine was slow
	}
	return balance, err
}

func (w *writer) begin(fence *sqlguard.Guard, o wire.Order) error {
	w.commit, w.done = make(chan struct{}), make(chan error, 1)
	written := make(chan struct{})
	ctx := w.lease.Context()
	go func() {
		w.done <- fence.Update(ctx, o.Resource, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, sets, o.Resource, o.Balance); err != nil {
				return err
			}
			close(written)
			<-w.commit
			return nil
		})
	}()
	select {
	case <-written:
		return nil
	case err := <-w.done:
		return err
	}
}

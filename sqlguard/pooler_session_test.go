package sqlguard_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// The session's own settings: each of them has to be changed by a guard for a
// while, and none of them is what a session begins with.
const ownSettings = "SET idle_in_transaction_session_timeout = '1h'; SET lock_timeout = '50s'; SET synchronous_commit = off"

// What a guard sets, or locks, is the transaction's. What the session has is
// the next client's too, and a pooler does not take it back.
//
// hazard P8
func TestNothingIsLeftInThePoolersSessions(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e, url := newEnv(t), testenv.PgBouncer(t)
			before := everySession(t, url, sessions, ownSettings)
			for _, s := range before {
				require.Equal(t, session{PID: s.PID, Idle: "1h", Lock: "50s", Synch: "off"}, s)
			}
			pool := client(t, url, mode, clients)
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
			var group sync.WaitGroup
			for i := range int64(clients) {
				group.Go(func() {
					for _, err := range busy(e, g, i+1) {
						if err != nil && !errors.Is(err, guard.ErrStale) {
							t.Errorf("client %d: %v", i, err)
						}
					}
				})
			}
			group.Wait()
			require.Equal(t, before, everySession(t, url, sessions, "SELECT 1"))

			// The twin does the same with what belongs to a session.
			twin := everySession(t, url, 1, `SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '5s';
				SET fencepost.admitted = 'account/42'; SET synchronous_commit = on; SELECT pg_advisory_lock_shared(9651)`)
			left := everySession(t, url, sessions, "SELECT 1")
			for pid, s := range twin {
				require.Equal(t, session{PID: pid, Idle: "5s", Lock: "5s", Admitted: "account/42", Synch: "on", Locks: 1}, s)
				require.Equal(t, s, left[pid], "the next client finds it")
			}
			everySession(t, url, sessions, "SELECT pg_advisory_unlock_all()") // it would outlive the test
		})
	}
}

// busy goes through every door, to the end of some transactions and back out of
// others, and returns what they said.
func busy(e *env, g *sqlguard.Guard, number int64) (errs []error) {
	ctx := e.ctx(number)
	for _, door := range doors(e, g) {
		errs = append(errs, door(ctx, "x"))
	}
	err := g.Update(ctx, resource, func(tx pgx.Tx) error {
		var s session
		err := tx.QueryRow(ctx, look).Scan(&s.PID, &s.Idle, &s.Lock, &s.Admitted, &s.Synch, &s.Locks)
		if err == nil && (s.Idle != "5s" || s.Admitted == "" || s.Locks != 1) {
			err = errors.New("nothing is set that could be left")
		}
		return errors.Join(err, guard.ErrStale) // rolls back
	})
	_, mint := g.Mint(ctx, g.DB, "account/43", "h")
	claim := g.Admit(context.WithoutCancel(ctx), token.Token{Resource: "account/44", Number: number, Holder: "h"})
	return append(errs, err, mint, claim)
}

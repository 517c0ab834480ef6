package sqlguard_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// leased is a context with a token whose lease the test loses.
func (e *env) leased(number int64) (ctx context.Context, lose context.CancelCauseFunc) {
	return context.WithCancelCause(e.ctx(number))
}

// slowCommit has every COMMIT behind a write to account 42 wait for a lock,
// in a deferred trigger: until the test lets go, it is in flight.
func (e *env) slowCommit() (letGo func()) {
	e.exec(`CREATE FUNCTION ` + e.schema + `.slow() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock(hashtext('` + e.schema + `')); RETURN NULL; END $$`)
	e.exec("CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".slow()")
	tx, err := e.pool.Begin(e.t.Context())
	require.NoError(e.t, err)
	_, err = tx.Exec(e.t.Context(), "SELECT pg_advisory_xact_lock(hashtext($1))", e.schema)
	require.NoError(e.t, err)
	return func() { require.NoError(e.t, tx.Rollback(e.t.Context())) }
}

// inCommit waits until a backend of this test waits for the test's lock.
func (e *env) inCommit() {
	e.await("a commit in flight", func() bool {
		return query[bool](e, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objsubid = 1 AND objid::bigint = hashtext($1)::bigint & 4294967295)", e.schema)
	})
}

// hazard G18
func TestLeaseLostDuringCommit(t *testing.T) {
	t.Parallel()
	lost := &token.LostError{Token: token.Token{Resource: resource, Number: 33}}
	for _, name := range []string{"Update", "UpdateAll", "On.Exec", "On.Query", "On.QueryRow", "On.SendBatch"} {
		t.Run(name+" is applied and says so", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			letGo := e.slowCommit()
			ctx, lose := e.leased(33)
			done := async(func() error { return doors(e, e.guard)[name](ctx, "applied") })
			e.inCommit()
			lose(lost)
			letGo()
			require.NoError(t, await(t, done))
			require.Equal(t, "applied", e.writer())
		})
	}
	t.Run("twin: the same under the lease's own context is applied and denied", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		letGo := e.slowCommit()
		// pgx asks the server, over another connection, to cancel what it has
		// given up. Here that comes too late to matter: it never arrives.
		var deaf atomic.Bool
		pool, _ := wired(t, 1, func(c *pgxpool.Config) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if deaf.Load() {
					return nil, errors.New("nobody there")
				}
				return dial(ctx, network, addr)
			}
		})
		ctx, lose := e.leased(33)
		done := async(func() error { return pgx.BeginFunc(ctx, pool, e.write(ctx, "applied")) })
		e.inCommit()
		deaf.Store(true)
		lose(lost)
		err := await(t, done)
		letGo()
		e.await("the commit that was given up", func() bool { return e.writer() == "applied" })
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("the caller's own end cuts a packet off, and nobody knows", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		letGo := e.slowCommit()
		ctx, cancel := context.WithCancel(e.ctx(33))
		done := async(func() error { return doors(e, e.guard)["On.Exec"](ctx, "who knows") })
		e.inCommit()
		cancel()
		err := await(t, done)
		letGo()
		require.ErrorIs(t, err, guard.ErrUnknown)
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, outcomes(err), 1)
	})
	t.Run("the caller's own end does not cut off the commit of an Update", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		letGo := e.slowCommit()
		ctx, cancel := context.WithCancel(e.ctx(33))
		done := async(func() error { return e.guard.Update(ctx, resource, e.write(ctx, "applied")) })
		e.inCommit()
		cancel()
		letGo()
		require.NoError(t, await(t, done))
		require.Equal(t, "applied", e.writer())
	})
}

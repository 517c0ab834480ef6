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
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// leased is a context with a token whose lease the test loses.
func (e *env) leased(number int64) (ctx context.Context, lose context.CancelCauseFunc) {
	return context.WithCancelCause(e.ctx(number))
}

// slowCommit makes every COMMIT after a write to account 42 wait, in a deferred trigger,
// for a lock that the test releases.
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
	e.await("a commit that waits", func() bool {
		return query[bool](e, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objsubid = 1 AND objid::bigint = hashtext($1)::bigint & 4294967295)", e.schema)
	})
}

// hazard G18
func TestLeaseLostDuringCommit(t *testing.T) {
	t.Parallel()
	lost := &token.LostError{Token: token.Token{Resource: resource, Number: 33}}
	const lose, leave = "a lost lease", "the caller's own end"
	for _, c := range []struct {
		door, end string
		cut       bool // the statement is cut off
	}{
		{"Update", lose, false}, {"UpdateAll", lose, false}, {"On.Exec", lose, false}, {"On.Query", lose, false}, {"On.QueryRow", lose, false}, {"On.SendBatch", lose, false},
		{"Update", leave, false}, {"On.Exec", leave, true},
	} {
		inEnv(t, c.door+" and "+c.end, func(t *testing.T, e *env) {
			letGo := e.slowCommit()
			ctx, end := e.leased(33)
			done := async(func() error { return doors(e, e.guard)[c.door](ctx, "applied") })
			e.inCommit()
			end(map[string]error{lose: lost}[c.end])
			if c.cut {
				err := await(t, done)
				letGo()
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
				return
			}
			letGo()
			require.NoError(t, await(t, done))
			require.Equal(t, "applied", e.writer())
		})
	}
	inEnv(t, "twin: the same under the lease's own context is applied and denied", func(t *testing.T, e *env) {
		letGo := e.slowCommit()
		// pgx sends a cancel request for an abandoned statement over another connection.
		// The test drops that request.
		var dropping atomic.Bool
		pool, _ := wired(t, 1, func(c *pgxpool.Config) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dropping.Load() {
					return nil, errors.New("no server")
				}
				return dial(ctx, network, addr)
			}
		})
		ctx, lose := e.leased(33)
		done := async(func() error { return pgx.BeginFunc(ctx, pool, e.write(ctx, "applied")) })
		e.inCommit()
		dropping.Store(true)
		lose(lost)
		err := await(t, done)
		letGo()
		e.await("the commit that was given up", func() bool { return e.writer() == "applied" })
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestLeaseLostBefore(t *testing.T) {
	t.Parallel()
	lost := &token.LostError{Token: token.Token{Resource: resource, Number: 33}}
	inEnv(t, "between fn and the commit it decides nothing", func(t *testing.T, e *env) {
		ctx, lose := e.leased(33)
		require.NoError(t, e.guard.Update(ctx, resource, func(tx pgx.Tx) error { defer lose(lost); return e.write(ctx, "x")(tx) }))
		require.Equal(t, "x", e.writer())
	})
	inEnv(t, "it is joined to fn's error", func(t *testing.T, e *env) {
		ctx, lose := e.leased(33)
		own := errors.New("own")
		err := e.guard.Update(ctx, resource, func(pgx.Tx) error { lose(lost); return own })
		require.ErrorIs(t, err, own)
		require.ErrorIs(t, err, token.ErrLost)
	})
	inEnv(t, "it is joined to a refusal", func(t *testing.T, e *env) {
		ctx, lose := e.leased(33)
		g := e.with(func(g *sqlguard.Guard) { g.Hooks.Refused = func(context.Context, error) { lose(lost) } })
		e.admitted(34)
		err := g.Update(ctx, resource, func(pgx.Tx) error { panic("fn ran") }) // the lease is lost during the admission
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost)
		require.Len(t, outcomes(err), 1)
	})
	inEnv(t, "if the lease was lost before sending, the mark decides, and the refusal has the cause", func(t *testing.T, e *env) {
		for name, door := range doors(e, e.guard) {
			e.exec("DELETE FROM marks")
			e.admitted(34)
			ctx, lose := e.leased(33)
			lose(lost)
			err := door(ctx, "x")
			if name == "Join" { // it is pgx's Begin that fails
				require.ErrorIs(t, err, context.Canceled)
				continue
			}
			require.ErrorIs(t, err, guard.ErrStale, name)
			require.ErrorIs(t, err, token.ErrLost, name)
		}
		require.Equal(t, "34 h34", e.mark(resource))
	})
	inEnv(t, "the newest token's single statement is applied", func(t *testing.T, e *env) {
		e.admitted(33)
		ctx, lose := e.leased(33)
		lose(lost)
		_, err := e.guard.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
		require.NoError(t, err)
		require.Equal(t, "x", e.writer())
	})
	inEnv(t, "a caller that has left is no lost lease", func(t *testing.T, e *env) {
		ctx, leave := context.WithCancel(e.ctx(33))
		leave()
		for name, door := range doors(e, e.guard) {
			err := door(ctx, "x")
			require.ErrorIs(t, err, context.Canceled, name)
			require.Empty(t, outcomes(err), name)
		}
		require.Empty(t, e.mark(resource))
	})
}

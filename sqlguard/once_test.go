package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

var payment = guard.Unit{Key: "payment/7", Fingerprint: "100 EUR"}

// pay returns a unit's function, which adds 1 to the balance of account 42.
func (e *env) pay(result string) func(pgx.Tx) ([]byte, error) {
	return func(tx pgx.Tx) ([]byte, error) { return []byte(result), e.addOne(e.t.Context())(tx) }
}

func mustNotRun(pgx.Tx) ([]byte, error) { panic("fn ran") }

func TestOnce(t *testing.T) {
	t.Parallel()
	t.Run("a repeat gets the first result", func(t *testing.T) {
		t.Parallel()
		for _, result := range []string{"", "first", strings.Repeat("x", guard.MaxResult)} {
			e := newEnv(t)
			ctx := e.ctx(33)
			for range 3 {
				got, err := e.guard.Once(ctx, resource, payment, e.pay(result))
				require.NoError(t, err)
				require.Equal(t, result, string(got))
			}
			require.Equal(t, int64(101), e.balance())
		}
	})
	inEnv(t, "a successor gets the first result", func(t *testing.T, e *env) {
		_, err := e.guard.Once(e.ctx(33), resource, payment, e.pay("first"))
		require.NoError(t, err)
		got, err := e.guard.Once(e.ctx(34), resource, payment, mustNotRun)
		require.NoError(t, err)
		require.Equal(t, "first", string(got))
	})
	inEnv(t, "a stale holder gets the result of its unit, and is refused without one", func(t *testing.T, e *env) {
		var refused []error
		g := e.with(func(g *sqlguard.Guard) {
			g.Hooks.Refused = func(_ context.Context, err error) { refused = append(refused, err) }
		})
		_, err := g.Once(e.ctx(33), resource, payment, e.pay("first"))
		require.NoError(t, err)
		e.admitted(34)
		got, err := g.Once(e.ctx(33), resource, payment, mustNotRun)
		require.NoError(t, err)
		require.Equal(t, "first", string(got))
		require.Empty(t, refused)
		_, err = g.Once(e.ctx(33), resource, guard.Unit{Key: "payment/8"}, mustNotRun)
		require.ErrorAs(t, err, new(*guard.StaleError))
		require.Len(t, refused, 1)
		_, err = g.Once(e.ctx(33), resource, guard.Unit{Key: payment.Key}, mustNotRun)
		require.ErrorIs(t, err, guard.ErrKeyReused)
		require.NotErrorIs(t, err, guard.ErrStale)
	})
	inEnv(t, "a key with other arguments", func(t *testing.T, e *env) {
		_, err := e.guard.Once(e.ctx(33), resource, payment, e.pay("first"))
		require.NoError(t, err)
		_, err = e.guard.Once(e.ctx(33), resource, guard.Unit{Key: payment.Key, Fingerprint: "200 EUR"}, mustNotRun)
		require.ErrorIs(t, err, guard.ErrKeyReused)
		require.EqualError(t, err, "sqlguard: unit payment/7 of account/42: guard: the unit's key was used with other arguments, nothing applied")
	})
	inEnv(t, "a key belongs to its resource", func(t *testing.T, e *env) {
		other := token.NewContext(e.ctx(33), token.Token{Resource: "account/43", Number: 33, Holder: "h33"})
		for _, name := range []string{resource, "account/43"} {
			_, err := e.guard.Once(other, name, payment, e.pay(name))
			require.NoError(t, err)
		}
		require.Equal(t, int64(102), e.balance())
	})
	inEnv(t, "a try that is rolled back leaves no unit", func(t *testing.T, e *env) {
		own := errors.New("fn's own")
		_, err := e.guard.Once(e.ctx(33), resource, payment, func(tx pgx.Tx) ([]byte, error) {
			return []byte("lost"), errors.Join(e.addOne(t.Context())(tx), own)
		})
		require.ErrorIs(t, err, own)
		_, err = e.guard.Once(e.ctx(33), resource, payment, func(tx pgx.Tx) ([]byte, error) {
			return make([]byte, guard.MaxResult+1), e.addOne(t.Context())(tx)
		})
		require.EqualError(t, err, "guard: the unit's result has 65537 bytes, the limit is 65536, nothing applied")
		got, err := e.guard.Once(e.ctx(34), resource, payment, e.pay("second"))
		require.NoError(t, err)
		require.Equal(t, "second", string(got))
		require.Equal(t, int64(101), e.balance())
	})
	inEnv(t, "what cannot work is refused", func(t *testing.T, e *env) {
		_, err := e.guard.Once(e.ctx(33), resource, guard.Unit{}, mustNotRun)
		require.ErrorIs(t, err, token.ErrInvalid)
		require.ErrorContains(t, err, "key")
		_, err = e.guard.Once(e.bounded(), resource, payment, mustNotRun)
		require.ErrorIs(t, err, token.ErrMissing)
		g := e.with(func(g *sqlguard.Guard) { g.Retention = -1 })
		_, err = g.Once(e.ctx(33), resource, payment, mustNotRun)
		require.EqualError(t, err, "guard: Retention is negative: -1ns")
		require.Empty(t, e.mark(resource))
	})
}

func TestOnceInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	once := func(tx pgx.Tx, number int64, fn func(pgx.Tx) ([]byte, error)) (string, error) {
		got, err := e.by(tx).Once(e.ctx(number), resource, payment, fn)
		return string(got), err
	}
	undo := errors.New("rolled back")
	require.ErrorIs(t, pgx.BeginFunc(e.bounded(), e.pool, func(tx pgx.Tx) error {
		_, err := once(tx, 33, e.pay("lost"))
		return errors.Join(err, undo)
	}), undo)
	for _, number := range []int64{33, 33, 32} {
		require.NoError(t, pgx.BeginFunc(e.bounded(), e.pool, func(tx pgx.Tx) error {
			got, err := once(tx, number, e.pay("first"))
			require.Equal(t, "first", got)
			return err
		}))
	}
	require.Equal(t, int64(101), e.balance())
}

// A repeat that comes while the unit is being applied waits for it, under the same token
// and under a newer one, at each isolation level.
func TestOnceAtOnce(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{"", pgx.RepeatableRead, pgx.Serializable} {
		inEnv(t, fmt.Sprint(level), func(t *testing.T, e *env) {
			g := e.with(func(g *sqlguard.Guard) { g.Tx.IsoLevel = level })
			var group sync.WaitGroup
			results := make(chan string, 8)
			for i := range cap(results) {
				group.Go(func() {
					for {
						got, err := g.Once(e.ctx(33), resource, payment, e.pay(fmt.Sprint("by ", i)))
						if errors.Is(err, guard.ErrRetryable) {
							continue
						}
						if err != nil {
							got = []byte(err.Error())
						}
						results <- string(got)
						return
					}
				})
			}
			group.Wait()
			first := <-results
			for range cap(results) - 1 {
				require.Equal(t, first, <-results)
			}
			require.Equal(t, int64(101), e.balance())
		})
	}
}

// hazard G39
// The COMMIT is lost, or its reply, and the caller repeats the unit without looking. The
// twin repeats an Update, and writes twice.
func TestOnceAfterALostCommit(t *testing.T) {
	t.Parallel()
	for name, swallow := range map[string]bool{"the COMMIT": true, "its reply": false} {
		inEnv(t, name, func(t *testing.T, e *env) {
			fault := &commitFault{swallow: swallow}
			// Without an incarnation the guard cannot settle the COMMIT, as after a crash.
			e.exec("ALTER TABLE " + pgtest.In(e.schema, "incarnation") + " SET LOGGED")
			g := e.with(func(g *sqlguard.Guard) { g.DB = pgtest.Connect(t, fault.breaks) })
			repeated := func(try func() error) {
				t.Helper()
				require.ErrorIs(t, try(), guard.ErrUnknown)
				require.NoError(t, try())
			}
			armed := false
			arm := func(fn func(pgx.Tx) error) func(pgx.Tx) error {
				if armed {
					return fn
				}
				armed = true
				return fault.after(fn)
			}
			repeated(func() error {
				got, err := g.Once(e.ctx(33), resource, payment, func(tx pgx.Tx) ([]byte, error) {
					return []byte("first"), arm(e.addOne(t.Context()))(tx)
				})
				if err == nil {
					require.Equal(t, "first", string(got))
				}
				return err
			})
			require.Equal(t, int64(101), e.balance())

			armed = false
			repeated(func() error { return g.Update(e.ctx(33), resource, arm(e.addOne(t.Context()))) })
			want := int64(103)
			if swallow {
				want = 102
			}
			require.Equal(t, want, e.balance(), "the twin")
		})
	}
}

// A repeat becomes stale after its first try was committed late:
//
//  1. A's try has not committed yet. A repeats it, and is stopped before its transaction.
//  2. A's try is committed. B is admitted.
//  3. A's repeat goes on. It is refused, and finds the unit.
//
// A guard that looks the unit up in step 1 does not find it.
func TestARepeatThatBecomesStaleFindsItsUnit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	inFn, commit, stopped, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	finish, resume := sync.OnceFunc(func() { close(commit) }), sync.OnceFunc(func() { close(goOn) })
	defer resume()
	defer finish()
	first := make(chan error, 1)
	go func() {
		_, err := e.guard.Once(e.ctx(33), resource, payment, func(tx pgx.Tx) ([]byte, error) {
			close(inFn)
			<-commit
			return e.pay("first")(tx)
		})
		first <- err
	}()
	<-inFn
	h := hooktest.Record{OnStep: func(step failpoint.Step) {
		if step == failpoint.Begin {
			close(stopped)
			<-goOn
		}
	}}
	repeat := make(chan string, 1)
	go func() {
		got, err := e.guard.Once(h.Listen(e.ctx(33)), resource, payment, func(pgx.Tx) ([]byte, error) { return nil, errors.New("fn ran") })
		repeat <- fmt.Sprint(string(got), err)
	}()
	select {
	case <-stopped:
	case got := <-repeat:
		require.Fail(t, "the repeat did not begin a transaction", got)
	}
	finish()
	require.NoError(t, <-first)
	e.admitted(34)
	resume()
	require.Equal(t, "first<nil>", <-repeat)
}

// A driver gets the unit's reply as text in these modes, in the form of bytea_output.
func TestOnceUnderEveryByteaOutput(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		e := newEnv(t)
		g := e.with(func(g *sqlguard.Guard) {
			g.DB = pgtest.Connect(t, func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
				c.ConnConfig.RuntimeParams["bytea_output"] = "escape"
			})
		})
		for _, result := range []string{"\x00\\first\xff", ""} {
			for range 2 {
				got, err := g.Once(e.ctx(33), resource, guard.Unit{Key: "result " + fmt.Sprint(len(result))}, e.pay(result))
				require.NoError(t, err, mode)
				require.Equal(t, result, string(got), mode)
			}
		}
		e.admitted(34)
		got, err := g.Once(e.ctx(33), resource, guard.Unit{Key: "result 8"}, mustNotRun)
		require.NoError(t, err, mode)
		require.Equal(t, "\x00\\first\xff", string(got), mode)
	}
}

func TestARollbackAndChainInAUnitIsUnknown(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := e.guard.Once(e.ctx(33), resource, payment, func(tx pgx.Tx) ([]byte, error) {
		_, err := tx.Exec(t.Context(), "ROLLBACK AND CHAIN")
		return []byte("first"), err
	})
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
}

package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

var payment = guard.Unit{Key: "payment/7", Fingerprint: "100 EUR"}

// pay returns a unit's function, which adds 1 to the balance of account 42.
func pay(t *testing.T, result string) func(*sql.Tx) ([]byte, error) {
	return func(tx *sql.Tx) ([]byte, error) {
		_, err := tx.ExecContext(t.Context(), "UPDATE accounts SET balance = balance + 1 WHERE id = 42")
		return []byte(result), err
	}
}

func mustNotRun(*sql.Tx) ([]byte, error) { panic("fn ran") }

func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g := db.guard()
		var refused []error
		g.Hooks.Refused = func(_ context.Context, err error) { refused = append(refused, err) }
		for i, result := range []string{"", "first", strings.Repeat("x", guard.MaxResult)} {
			before := balance(t, db)
			unit := guard.Unit{Key: fmt.Sprint("result/", i)}
			for range 3 {
				got, err := g.Once(holding(t, 33, "a"), account, unit, pay(t, result))
				require.NoError(t, err)
				require.Equal(t, result, string(got))
			}
			require.Equal(t, before+1, balance(t, db))
		}
		_, err := g.Once(holding(t, 33, "a"), account, payment, pay(t, "first"))
		require.NoError(t, err)
		applied := balance(t, db)

		for _, number := range []int64{34, 33} { // a successor, and then the stale holder
			got, err := g.Once(holding(t, number, "a"), account, payment, pay(t, "second"))
			require.NoError(t, err)
			require.Equal(t, "first", string(got))
			_, err = g.Once(holding(t, number, "a"), account, guard.Unit{Key: payment.Key, Fingerprint: "200 EUR"}, mustNotRun)
			require.ErrorIs(t, err, guard.ErrKeyReused)
			require.NotErrorIs(t, err, guard.ErrStale)
			db.claim(t, tok(34, "a"))
		}
		require.Equal(t, applied, balance(t, db))
		require.Empty(t, refused)
		_, err = g.Once(holding(t, 33, "a"), account, guard.Unit{Key: "payment/8"}, mustNotRun)
		require.ErrorAs(t, err, new(*guard.StaleError))
		require.Len(t, refused, 1)

		_, err = g.Once(holding(t, 34, "a"), account, guard.Unit{Key: "two\nlines"}, mustNotRun)
		require.ErrorIs(t, err, token.ErrInvalid)
	})
}

func TestAKeyBelongsToItsResource(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		other := token.Token{Resource: "account/43", Number: 33, Holder: "a"}
		ctx := token.NewContext(holding(t, 33, "a"), other)
		for _, resource := range []string{account, other.Resource} {
			got, err := db.guard().Once(ctx, resource, payment, pay(t, resource))
			require.NoError(t, err)
			require.Equal(t, resource, string(got))
		}
		require.Equal(t, 102, balance(t, db))
	})
}

func TestATryThatIsRolledBackLeavesNoUnit(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g, own := db.guard(), errors.New("fn's own")
		_, err := g.Once(holding(t, 33, "a"), account, payment, func(tx *sql.Tx) ([]byte, error) {
			result, err := pay(t, "lost")(tx)
			return result, errors.Join(err, own)
		})
		require.ErrorIs(t, err, own)
		_, err = g.Once(holding(t, 33, "a"), account, payment, pay(t, strings.Repeat("x", guard.MaxResult+1)))
		require.ErrorContains(t, err, "the limit is 65536, nothing applied")
		got, err := g.Once(holding(t, 34, "a"), account, payment, pay(t, "second"))
		require.NoError(t, err)
		require.Equal(t, "second", string(got))
		require.Equal(t, 101, balance(t, db))
	})
}

// A repeat that comes while the unit is being applied waits for it, or is told to run
// again.
func TestOnceAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		for _, tx := range []*sql.TxOptions{nil, {Isolation: sql.LevelSerializable}} {
			if tx != nil && db.dialect == stdsql.SQLite {
				continue // its driver refuses the option
			}
			g, before := db.guard(), balance(t, db)
			g.Tx = tx
			unit := guard.Unit{Key: fmt.Sprint("at once/", tx != nil)}
			db.claim(t, tok(33, "a"))
			var group sync.WaitGroup
			results := make(chan string, 6)
			for i := range cap(results) {
				group.Go(func() {
					var got []byte
					err := guard.ErrRetryable
					for errors.Is(err, guard.ErrRetryable) {
						got, err = g.Once(holding(t, 33, "a"), account, unit, pay(t, fmt.Sprint("by ", i)))
					}
					if err != nil {
						got = []byte(err.Error())
					}
					results <- string(got)
				})
			}
			group.Wait()
			first := <-results
			for range cap(results) - 1 {
				require.Equal(t, first, <-results)
			}
			require.Equal(t, before+1, balance(t, db))
		}
	})
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
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")
		inFn, commit, stopped, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
		finish, resume := sync.OnceFunc(func() { close(commit) }), sync.OnceFunc(func() { close(goOn) })
		defer resume()
		defer finish()
		first := make(chan error, 1)
		go func() {
			_, err := db.guard().Once(ctx, account, payment, func(tx *sql.Tx) ([]byte, error) {
				close(inFn)
				<-commit
				return pay(t, "first")(tx)
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
			got, err := db.guard().Once(h.Listen(ctx), account, payment, func(*sql.Tx) ([]byte, error) { return nil, errors.New("fn ran") })
			repeat <- fmt.Sprint(string(got), err)
		}()
		select {
		case <-stopped:
		case got := <-repeat:
			require.Fail(t, "the repeat did not begin a transaction", got)
		}
		finish()
		require.NoError(t, <-first)
		db.claim(t, tok(34, "a"))
		resume()
		require.Equal(t, "first<nil>", <-repeat)
	})
}

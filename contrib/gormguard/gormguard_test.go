package gormguard_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/fencepost/fencepost/contrib/gormguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// add is a read-modify-write of account 42.
func add(tx *gorm.DB, amount int64) error {
	account := Account{ID: 42}
	if err := tx.First(&account).Error; err != nil {
		return err
	}
	account.Balance += amount
	return tx.Save(&account).Error
}

// ways are the ways to write under ctx's token.
var ways = map[string]func(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, fn func(tx *gorm.DB) error) error{
	"Update": func(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, fn func(tx *gorm.DB) error) error {
		return gormguard.Update(ctx, db, fence, "account/42", fn)
	},
	"UpdateAll": func(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, fn func(tx *gorm.DB) error) error {
		return gormguard.UpdateAll(ctx, db, fence, []string{"account/42", "account/42"}, fn)
	},
	"Once": func(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, fn func(tx *gorm.DB) error) error {
		_, err := gormguard.Once(ctx, db, fence, "account/42", guard.Unit{Key: rand.Text()}, func(tx *gorm.DB) ([]byte, error) { return nil, fn(tx) })
		return err
	},
	"Join": func(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, fn func(tx *gorm.DB) error) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := fence.Join(ctx, gormguard.Tx(tx), "account/42"); err != nil {
				return err
			}
			return fn(tx)
		})
	},
}

// configs are GORM's settings that change how it begins transactions and sends statements.
var configs = map[string]gorm.Config{
	"default":     {},
	"prepared":    {PrepareStmt: true, TranslateError: true},
	"skipping":    {SkipDefaultTransaction: true},
	"not nesting": {PrepareStmt: true, DisableNestedTransaction: true},
}

// onEachWay runs a test on each database, with each way to write and each setting. The
// mark of account/42 is 33 at first.
func onEachWay(t *testing.T, test func(t *testing.T, d *database, write func(number int64, fn func(tx *gorm.DB) error) error)) {
	t.Helper()
	onEach(t, func(t *testing.T, d *database) {
		for setting, config := range configs {
			db := d.open(t, config)
			for name, way := range ways {
				t.Run(name+", "+setting, func(t *testing.T) {
					require.NoError(t, d.plain.Exec("DELETE FROM "+d.marks()).Error)
					d.seed(t)
					d.claim(t, 33, "account/42")
					test(t, d, func(number int64, fn func(tx *gorm.DB) error) error {
						return way(holding(t, number, "account/42"), db, d.guard, fn)
					})
				})
			}
		}
	})
}

func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, d *database, write func(number int64, fn func(tx *gorm.DB) error) error) {
		add10 := func(tx *gorm.DB) error { return add(tx, 10) }
		require.NoError(t, write(33, add10))
		d.claim(t, 34, "account/42")
		require.NoError(t, write(34, add10))
		requireStale(t, write(33, func(*gorm.DB) error { panic("fn ran") }))
		require.Equal(t, "20 and 0, 2 entries", d.state(t))
		require.NoError(t, add10(d.plain.WithContext(t.Context())))
		require.Equal(t, "30 and 0, 3 entries", d.state(t), "without the guard, the late write is applied")
	})
}

// Hooks, and nested transactions that have ended, are part of the transaction.
func TestAnErrorRollsEverythingBack(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, d *database, write func(number int64, fn func(tx *gorm.DB) error) error) {
		own := errors.New("fn's own")
		require.ErrorIs(t, write(33, func(tx *gorm.DB) error {
			return errors.Join(add(tx, 10), tx.Transaction(func(tx *gorm.DB) error { return add(tx, 10) }), own)
		}), own)
		require.ErrorIs(t, write(33, func(tx *gorm.DB) error { return add(tx, -2*opening) }), errNegative)
		require.PanicsWithValue(t, "fn's", func() {
			_ = write(33, func(tx *gorm.DB) error {
				require.NoError(t, add(tx, 10))
				panic("fn's")
			})
		})
		require.Equal(t, "0 and 0, 0 entries", d.state(t))
		require.ErrorIs(t, add(d.plain.Session(&gorm.Session{SkipDefaultTransaction: true}), -2*opening), errNegative)
		require.Equal(t, "0 and 0, 1 entries", d.state(t), "without a transaction, the hook's write stays")
	})
}

func TestANestedTransactionIsRolledBackAlone(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, d *database, write func(number int64, fn func(tx *gorm.DB) error) error) {
		require.NoError(t, write(33, func(tx *gorm.DB) error {
			if tx.DisableNestedTransaction {
				return add(tx, 10)
			}
			require.ErrorIs(t, tx.Transaction(func(tx *gorm.DB) error {
				return errors.Join(add(tx, 5), context.Canceled)
			}), context.Canceled)
			return add(tx, 10)
		}))
		require.Equal(t, "10 and 0, 1 entries", d.state(t))
	})
}

// If fn ends the transaction by GORM's methods, Update does not return nil.
func TestAnFnThatEndsTheTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		for name, end := range map[string]func(tx *gorm.DB) *gorm.DB{"commit": (*gorm.DB).Commit, "rollback": (*gorm.DB).Rollback} {
			err := gormguard.Update(holding(t, 33, "account/42"), d.plain, d.guard, "account/42", func(tx *gorm.DB) error {
				return errors.Join(add(tx, 10), end(tx).Error)
			})
			require.ErrorIs(t, err, guard.ErrUnknown, name)
		}
		require.Equal(t, "10 and 0, 1 entries", d.state(t))
	})
}

// A refusal inside fn, of another resource, leaves nothing to commit, even if fn ignores
// it.
func TestACallerThatIgnoresARefusalCommitsNothing(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, d *database, write func(number int64, fn func(tx *gorm.DB) error) error) {
		d.claim(t, 34, "account/43")
		stale := holding(t, 33, "account/43")
		for _, session := range []gorm.Session{{}, {PrepareStmt: true}} {
			require.Error(t, write(33, func(tx *gorm.DB) error {
				tx = tx.Session(&session)
				require.NoError(t, add(tx, 10))
				requireStale(t, d.guard.Join(stale, gormguard.Tx(tx), "account/43"))
				return nil
			}))
			require.Equal(t, "0 and 0, 0 entries", d.state(t))
		}
	})
}

// Join refuses a *gorm.DB in no transaction, and Update one in a transaction of the
// caller's. Otherwise there would be two transactions where the caller sees one.
func TestTransactionsOfTheCaller(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		ctx := holding(t, 33, "account/42")
		for setting, config := range configs {
			db := d.open(t, config).WithContext(ctx)
			require.ErrorContains(t, d.guard.Join(ctx, gormguard.Tx(db), "account/42"), "needs a transaction", setting)
			require.ErrorContains(t, db.Connection(func(tx *gorm.DB) error { return d.guard.Join(ctx, gormguard.Tx(tx), "account/42") }), "needs a transaction", setting)
			for name, way := range ways {
				if name == "Join" {
					continue
				}
				require.ErrorContains(t, db.Transaction(func(tx *gorm.DB) error {
					return way(ctx, tx, d.guard, func(*gorm.DB) error { panic("fn ran") })
				}), "gormguard: db is in a transaction", "%s, %s", name, setting)
			}
		}
	})
}

func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		for setting, config := range configs {
			db, unit := d.open(t, config), guard.Unit{Key: setting, Fingerprint: "10 EUR"}
			d.seed(t)
			pay := func(number int64, result string) (string, error) {
				got, err := gormguard.Once(holding(t, number, "account/42"), db, d.guard, "account/42", unit, func(tx *gorm.DB) ([]byte, error) {
					return []byte(result), add(tx, 10)
				})
				return string(got), err
			}
			own := errors.New("fn's own")
			_, err := gormguard.Once(holding(t, 33, "account/42"), db, d.guard, "account/42", unit, func(tx *gorm.DB) ([]byte, error) {
				return []byte("lost"), errors.Join(add(tx, 10), own)
			})
			require.ErrorIs(t, err, own)
			require.Equal(t, "0 and 0, 0 entries", d.state(t))
			for number := range int64(3) { // its holder, a successor, and then the stale holder
				got, err := pay(33+number%2, "first")
				require.NoError(t, err)
				require.Equal(t, "first", got)
			}
			unit.Fingerprint = "20 EUR"
			_, err = pay(34, "second")
			require.ErrorIs(t, err, guard.ErrKeyReused)
			d.claim(t, 34, "account/42")
			unit.Key = "never applied"
			_, err = pay(33, "second")
			requireStale(t, err)
			require.Equal(t, "10 and 0, 1 entries", d.state(t))
			require.NoError(t, d.plain.Exec("DELETE FROM "+d.marks()).Error)
		}
		require.NoError(t, errors.Join(add(d.plain, 10), add(d.plain, 10)))
		require.Equal(t, "30 and 0, 3 entries", d.state(t), "without Once, a repeat is applied again")
	})
}

func TestWhatWasInTheWayIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	d.guard.Tx, d.guard.IdleTimeout = &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, time.Minute
	db, ctx, runs := d.open(t, gorm.Config{TranslateError: true}), holding(t, 33, "account/42"), 0
	withdraw := func(before func() error) error {
		return gormguard.Update(ctx, db, d.guard, "account/42", func(tx *gorm.DB) error {
			runs++
			account := Account{ID: 42}
			return errors.Join(tx.First(&account).Error, before(), tx.Model(&account).Update("balance", account.Balance-20).Error)
		})
	}
	peer := func() error { return withdraw(func() error { return nil }) }
	require.ErrorIs(t, withdraw(peer), guard.ErrRetryable)
	require.NoError(t, peer())
	require.Equal(t, 3, runs)
	require.Equal(t, "-40 and 0, 2 entries", d.state(t), "neither is lost")
}

func TestSeveralResourcesAreAdmittedOrNone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		d.claim(t, 34, "account/42", "account/43")
		move := func(ctx context.Context) error {
			return gormguard.UpdateAll(ctx, d.plain, d.guard, []string{"account/43", "account/42"}, func(tx *gorm.DB) error {
				return errors.Join(add(tx, -5), tx.Model(&Account{ID: 43}).Update("balance", opening+5).Error)
			})
		}
		requireStale(t, move(token.NewContext(holding(t, 34, "account/42"), tok("account/43", 33))))
		require.ErrorIs(t, move(holding(t, 34, "account/42")), token.ErrMissing)
		require.Equal(t, "0 and 0, 0 entries", d.state(t))
		require.NoError(t, move(holding(t, 34, "account/42", "account/43")))
		require.Equal(t, "-5 and 5, 2 entries", d.state(t))
	})
}

// subject returns what package simulations tests.
func (d *database) subject(do func(ctx context.Context) error) simulations.Subject {
	return simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: "account/42", Claim: d.guard.Admit, Do: do,
		Count: func(ctx context.Context) (int, error) {
			account := Account{ID: 42}
			err := d.plain.WithContext(ctx).First(&account).Error
			return int(account.Balance) - opening, err
		},
	}
}

func TestItSurvivesThePause(t *testing.T)       { survives(t) }
func TestStressItSurvivesThePause(t *testing.T) { survives(t) }

func survives(t *testing.T) {
	t.Parallel()
	for name, way := range testenv.Some(t, ways, "Update") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := onPostgres(t)
			simulations.Run(t, d.subject(func(ctx context.Context) error {
				return way(ctx, d.plain, d.guard, func(tx *gorm.DB) error { return add(tx, 1) })
			}))
		})
	}
}

func TestItDoesNotSurviveWithoutTheFence(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(ctx context.Context, d *database) error{
		"no guard": func(ctx context.Context, d *database) error { return add(d.plain.WithContext(ctx), 1) },
		"a write through db and not through tx": func(ctx context.Context, d *database) error {
			return gormguard.Update(ctx, d.plain, d.guard, "account/42", func(*gorm.DB) error { return add(d.plain.WithContext(ctx), 1) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := onPostgres(t)
			err := simulations.Check(t, d.subject(func(ctx context.Context) error { return way(ctx, d) }))
			var verdict *simulations.Verdict
			require.ErrorAs(t, err, &verdict)
			// A slow writer is evicted between its BEGIN and its write. A write around
			// the transaction breaks "trace".
			require.True(t, verdict.Breaks("order") || verdict.Breaks("once") || verdict.Breaks("trace"), "%v", verdict)
		})
	}
}

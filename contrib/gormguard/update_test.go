package gormguard_test

import (
	"context"
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
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// add is a read-modify-write.
func add(tx *gorm.DB, amount int64) error {
	account := Account{ID: 42}
	if err := tx.First(&account).Error; err != nil {
		return err
	}
	return tx.Model(&account).Update("balance", account.Balance+amount).Error
}

// save is a read-modify-write in which every statement is a transaction.
func save(db *gorm.DB, amount int64) error {
	account := Account{ID: 42}
	if err := db.First(&account).Error; err != nil {
		return err
	}
	account.Balance += amount
	return db.Save(&account).Error
}

// ways are the ways to write to the database under ctx's token.
var ways = map[string]func(ctx context.Context, d *database, plain, fenced *gorm.DB, amount int64) error{
	"Update": func(ctx context.Context, d *database, plain, _ *gorm.DB, amount int64) error {
		return gormguard.Update(ctx, plain, d.guard, "account/42", func(tx *gorm.DB) error { return add(tx, amount) })
	},
	"Update, with the plugin": func(ctx context.Context, d *database, _, fenced *gorm.DB, amount int64) error {
		return gormguard.Update(ctx, fenced, d.guard, "account/42", func(tx *gorm.DB) error { return add(tx, amount) })
	},
	"Join": func(ctx context.Context, d *database, plain, _ *gorm.DB, amount int64) error {
		return plain.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := d.guard.Join(ctx, gormguard.Tx(tx), "account/42"); err != nil {
				return err
			}
			return add(tx, amount)
		})
	},
	"the plugin": func(ctx context.Context, _ *database, _, fenced *gorm.DB, amount int64) error {
		return save(fenced.WithContext(ctx), amount)
	},
	"the plugin, in a transaction": func(ctx context.Context, _ *database, _, fenced *gorm.DB, amount int64) error {
		return fenced.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := tx.Model(&Account{ID: 42}).Update("balance", gorm.Expr("balance")).Error; err != nil {
				return err
			}
			return save(tx, amount)
		})
	},
}

func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		for _, config := range []gorm.Config{{}, {PrepareStmt: true, TranslateError: true}} {
			plain, fenced := d.open(t, config), d.fenced(t, config)
			for name, way := range ways {
				resource := "account/42"
				_, err := d.guard.DB.ExecContext(t.Context(), "DELETE FROM "+d.marks())
				require.NoError(t, err)
				d.seed(t)
				d.claim(t, 33, resource)
				require.NoError(t, way(holding(t, 33, resource), d, plain, fenced, 10), name)
				d.claim(t, 34, resource)
				require.NoError(t, way(holding(t, 34, resource), d, plain, fenced, 20), name)
				requireStale(t, way(holding(t, 33, resource), d, plain, fenced, 40))
				require.EqualValues(t, opening+30, d.balance(t), name)
			}
		}
		require.NoError(t, save(d.plain.WithContext(holding(t, 33, "account/42")), 40))
		require.EqualValues(t, opening+70, d.balance(t), "without a guard it is let in")
	})
}

func (d *database) marks() string {
	if d.plain.Name() == "postgres" {
		return "fencepost.marks"
	}
	return "fencepost_marks"
}

func (d *database) balance(t *testing.T) int64 {
	t.Helper()
	account := Account{ID: 42}
	require.NoError(t, d.plain.WithContext(t.Context()).First(&account).Error)
	return account.Balance
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
	for name, way := range testenv.Some(t, ways, "Update", "the plugin") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := onPostgres(t)
			plain, fenced := d.open(t, gorm.Config{}), d.fenced(t, gorm.Config{})
			simulations.Run(t, d.subject(func(ctx context.Context) error { return way(ctx, d, plain, fenced, 1) }))
		})
	}
}

func TestItDoesNotSurviveWithoutTheFence(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(ctx context.Context, d *database) error{
		"no guard": func(ctx context.Context, d *database) error { return save(d.plain.WithContext(ctx), 1) },
		"a write through db and not through tx": func(ctx context.Context, d *database) error {
			return gormguard.Update(ctx, d.plain, d.guard, "account/42", func(*gorm.DB) error { return add(d.plain.WithContext(ctx), 1) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := onPostgres(t)
			subject := d.subject(func(ctx context.Context) error { return way(ctx, d) })
			err := simulations.Check(t, subject)
			var verdict *simulations.Verdict
			require.ErrorAs(t, err, &verdict)
			// A slow writer is evicted between its BEGIN and its write. A write around
			// the transaction breaks "trace".
			require.True(t, verdict.Breaks("order") || verdict.Breaks("once") || verdict.Breaks("trace"), "%v", verdict)
		})
	}
}

func TestWhatWasInTheWayIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	d.guard.Tx, d.guard.IdleTimeout = &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, time.Minute
	ctx, runs := holding(t, 33, "account/42"), 0
	withdraw := func(before func() error) error {
		return gormguard.Update(ctx, d.plain, d.guard, "account/42", func(tx *gorm.DB) error {
			runs++
			account := Account{ID: 42}
			return errors.Join(tx.First(&account).Error, before(), tx.Model(&account).Update("balance", account.Balance-20).Error)
		})
	}
	peer := func() error { return withdraw(func() error { return nil }) }
	require.ErrorIs(t, withdraw(peer), guard.ErrRetryable)
	require.NoError(t, peer())
	require.Equal(t, 3, runs)
	require.EqualValues(t, opening-40, d.balance(t), "neither is lost")
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
		require.EqualValues(t, opening, d.balance(t))
		require.NoError(t, move(holding(t, 34, "account/42", "account/43")))
		require.EqualValues(t, opening-5, d.balance(t))
	})
}

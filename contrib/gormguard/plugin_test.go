package gormguard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/fencepost/fencepost/contrib/gormguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestThePluginNeedsAGuard(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, onSQLite(t).plain.Use(&gormguard.Plugin{}), "no Guard")
}

// On MySQL, any unique index may select the row that an upsert updates.
func TestAnUpsertReachesNoRowByAnotherIndex(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		d.claim(t, 34, held...)
		db := d.fenced(t, gorm.Config{}).WithContext(holding(t, 34, held...))
		before := d.rows(t)
		taken := &User{ID: 44, Email: "43@example.com"}
		for _, err := range []error{
			db.Save(taken).Error,
			db.Save([]*User{taken}).Error,
			db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, UpdateAll: true}).Create(taken).Error,
		} {
			require.Error(t, err)
			if db.Name() == "mysql" {
				require.ErrorIs(t, err, gormguard.ErrCannotFence)
			}
			require.Equal(t, before, d.rows(t))
		}
		require.NoError(t, db.Save(&User{ID: 42, Email: "new"}).Error)
	})
	t.Run("the twin updates a row of another", func(t *testing.T) {
		t.Parallel()
		d := onMariaDB(t)
		before := d.others(t)
		require.NoError(t, d.plain.WithContext(t.Context()).Save(&[]User{{ID: 44, Email: "43@example.com"}}).Error)
		require.NoError(t, d.plain.WithContext(t.Context()).Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.Assignments(map[string]any{"email": "taken"}),
		}).Create(&User{ID: 44, Email: "43@example.com"}).Error)
		require.NotEqual(t, before, d.others(t))
	})
}

func TestOutsideOfATransactionNothingIsWritten(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		d.claim(t, 34, "account/42")
		before := d.rows(t)
		for _, config := range []gorm.Config{{SkipDefaultTransaction: true}, {SkipDefaultTransaction: true, PrepareStmt: true}} {
			db := d.fenced(t, config).WithContext(holding(t, 34, "account/42"))
			require.ErrorIs(t, db.Save(account(42)).Error, gormguard.ErrCannotFence)
			require.ErrorIs(t, db.Delete(account(42)).Error, gormguard.ErrCannotFence)
			require.Equal(t, before, d.rows(t))
			requireStale(t, db.WithContext(holding(t, 33, "account/42")).Transaction(func(tx *gorm.DB) error { return tx.Save(account(42)).Error }))
			require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return tx.Model(account(42)).Update("balance", opening).Error }))
		}
	})
}

func TestReturningIsFenced(t *testing.T) {
	t.Parallel()
	for _, open := range []func(*testing.T) *database{onPostgres, onSQLite} { // MySQL has no UPDATE … RETURNING
		d := open(t)
		d.claim(t, 34, "account/42")
		db, back := d.fenced(t, gorm.Config{}), []Account{{ID: 42}}
		require.NoError(t, db.WithContext(holding(t, 34, "account/42")).Model(&back).Clauses(clause.Returning{}).Update("balance", 7).Error)
		require.EqualValues(t, 7, back[0].Balance)
		none := []Account{{ID: 42}}
		require.NoError(t, db.WithContext(holding(t, 34, "account/42")).Model(&none).Where("balance = 8").Clauses(clause.Returning{}).Update("balance", 9).Error)
		require.Empty(t, none)
		requireStale(t, db.WithContext(holding(t, 33, "account/42")).Model(&back).Clauses(clause.Returning{}).Update("balance", 8).Error)
		requireStale(t, db.WithContext(holding(t, 33, "account/42")).Clauses(clause.Returning{}).Unscoped().Delete(&back).Error)
	}
}

// Seat has a key of two columns.
type Seat struct {
	Hall   string `gorm:"primaryKey;size:9"`
	Number int64  `gorm:"primaryKey;autoIncrement:false"`
	Guest  string
}

func (s *Seat) Resource() string { return fmt.Sprintf("seat/%s/%d", s.Hall, s.Number) }

func TestAKeyOfTwoColumns(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		require.NoError(t, d.plain.AutoMigrate(&Seat{}))
		d.claim(t, 34, "seat/a/1", "seat/a/2", "seat/b/1")
		db := d.fenced(t, gorm.Config{}).WithContext(holding(t, 34, "seat/a/1", "seat/a/2", "seat/b/1"))
		seats := []Seat{{"a", 1, "x"}, {"a", 2, "x"}, {"b", 1, "x"}}
		require.NoError(t, db.Save(&seats).Error)
		require.NoError(t, db.Save(seats).Error)
		require.NoError(t, db.Model(&[]Seat{{Hall: "a", Number: 2}, {Hall: "b", Number: 1}}).Update("guest", "y").Error)
		require.NoError(t, db.Delete(&Seat{Hall: "b", Number: 1}).Error)
		require.ErrorIs(t, db.Delete(&Seat{Hall: "a"}).Error, gormguard.ErrCannotFence)
		require.ErrorIs(t, db.Model(&seats[0]).Update("number", 2).Error, gormguard.ErrCannotFence)
		requireStale(t, db.WithContext(holding(t, 33, "seat/a/1")).Delete(&seats[0]).Error)
		var found []Seat
		require.NoError(t, db.Order("number").Find(&found).Error)
		require.Equal(t, []Seat{{"a", 1, "x"}, {"a", 2, "y"}}, found)
	})
}

func TestADryRunNeedsNoToken(t *testing.T) {
	t.Parallel()
	db := onSQLite(t).fenced(t, gorm.Config{}).WithContext(t.Context())
	require.NoError(t, db.Session(&gorm.Session{DryRun: true}).Save(account(42)).Error)
	require.Contains(t, db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Save(account(42)) }), "UPDATE")
}

// Two writers that name the same resources in different orders would deadlock if each
// resource were admitted in the given order.
func TestAllResourcesOfAStatementAreAdmittedInOneOrder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		d.claim(t, 34, "account/42", "account/43", "pair/42", "order/44")
		db, fresh := d.fenced(t, gorm.Config{}), tok("account/42", 34)
		stale := holding(t, 33, "account/42", "account/43", "pair/42", "order/44")
		require.ErrorContains(t, db.WithContext(stale).Save([]*Account{account(43), account(42)}).Error, "account/42#33")
		require.ErrorContains(t, db.WithContext(stale).Save(&Pair{ID: 42}).Error, "account/42#33")
		pair := &Pair{ID: 42, Orders: []Order{{ID: 44}}}
		for name, write := range map[string]write{
			"with an association": func(db *gorm.DB) error { return db.Save(pair).Error },
			"below another":       func(db *gorm.DB) error { return db.Select("*", "Orders").Save(pair).Error },
		} {
			require.ErrorContains(t, write(db.WithContext(token.NewContext(stale, fresh))), "order/44#33", name)
		}
	})
}

// If a savepoint undoes an admission, the next statement admits again.
func TestASavepointTakesBackWhatWasAdmittedInIt(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	d.guard.IdleTimeout = -1
	db := d.fenced(t, gorm.Config{}).WithContext(holding(t, 33, "account/42"))
	before := d.rows(t)
	err := db.Transaction(func(tx *gorm.DB) error {
		require.ErrorIs(t, tx.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Save(account(42)).Error)
			return context.Canceled
		}), context.Canceled)
		d.claim(t, 34, "account/42") // waits for no lock
		return tx.Save(account(42)).Error
	})
	requireStale(t, err)
	require.Equal(t, before, d.rows(t))
}

func TestACallerThatIgnoresARefusalCommitsNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		d.claim(t, 34, "account/42", "user/42")
		before := d.rows(t)
		ctx := token.NewContext(holding(t, 34, "account/42"), tok("user/42", 33))
		for _, prepared := range []bool{false, true} {
			db := d.fenced(t, gorm.Config{PrepareStmt: prepared}).WithContext(ctx)
			err := db.Transaction(func(tx *gorm.DB) error {
				require.NoError(t, tx.Save(account(42)).Error)
				requireStale(t, tx.Save(&User{ID: 42}).Error)
				return nil
			})
			require.Error(t, err)
			err = gormguard.Update(ctx, db, d.guard, "account/42", func(tx *gorm.DB) error {
				tx = tx.Session(&gorm.Session{PrepareStmt: prepared})
				require.NoError(t, tx.Save(account(42)).Error)
				requireStale(t, tx.Save(&User{ID: 42}).Error)
				return nil
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, guard.ErrUnknown)
			require.Equal(t, before, d.rows(t))
		}
	})
}

func TestAFailedCommitIsNotCertain(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	d.claim(t, 34, "wallet/44")
	require.NoError(t, d.plain.Exec("ALTER TABLE wallets ALTER CONSTRAINT fk_customers_wallets DEFERRABLE INITIALLY DEFERRED").Error)
	db := d.fenced(t, gorm.Config{}).WithContext(holding(t, 34, "wallet/44"))
	require.ErrorIs(t, db.Create(&Wallet{ID: 44, CustomerID: 99}).Error, guard.ErrUnknown)
	err := d.plain.WithContext(t.Context()).Create(&Wallet{ID: 44, CustomerID: 99}).Error
	require.Error(t, err)
	require.NotErrorIs(t, err, guard.ErrUnknown, "GORM's own")
}

func TestAReportOnlyGuardRefusesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		var reported []error
		d.claim(t, 34, "account/42")
		d.guard.DangerouslyReportOnly = true
		d.guard.Hooks.Reported = func(_ context.Context, err error) { reported = append(reported, err) }
		db := d.fenced(t, gorm.Config{}).WithContext(holding(t, 33, "account/42"))
		require.NoError(t, db.Save(account(42)).Error)
		require.NoError(t, db.Model(&Account{}).Where("id = 43").Update("balance", 7).Error)
		require.NoError(t, db.Model(account(42)).Where("id = 42").Or("id = 43").Update("balance", 8).Error)
		require.NoError(t, db.Session(&gorm.Session{SkipDefaultTransaction: true}).Save(account(42)).Error)
		require.NoError(t, db.Model(account(42)).Where("id = 43\nOR\nid = 42").Update("deleted_at", nil).Error)
		require.Len(t, reported, 6)
		require.ErrorIs(t, reported[0], guard.ErrStale)
		require.ErrorIs(t, reported[1], gormguard.ErrCannotFence)
		require.ErrorIs(t, reported[2], guard.ErrStale)
		require.ErrorIs(t, reported[3], gormguard.ErrCannotFence)
		require.ErrorIs(t, reported[4], gormguard.ErrCannotFence)
	})
}

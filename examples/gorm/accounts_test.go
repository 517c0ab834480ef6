package gorm_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	example "github.com/fencepost/fencepost/examples/gorm"
	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// idle is how long a holder may sleep in a transaction.
const idle = 100 * time.Millisecond

func open(t *testing.T, config gorm.Config) *example.Accounts {
	t.Helper()
	sql := bank.DB(t)
	config.Logger = logger.Discard
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: sql}), &config)
	require.NoError(t, err)
	return &example.Accounts{DB: db, Fence: &stdsql.Guard{DB: sql, Idle: idle}}
}

type spend func(ctx context.Context, a *example.Accounts, amount int64) error

var spends = map[string]spend{
	"Update": func(ctx context.Context, a *example.Accounts, amount int64) error { return a.Withdraw(ctx, 42, amount) },
	"Join": func(ctx context.Context, a *example.Accounts, amount int64) error {
		return a.WithdrawJoined(ctx, 42, amount)
	},
	"the plugin": plain,
}

// plain knows nothing of guards.
func plain(ctx context.Context, a *example.Accounts, amount int64) error {
	account := example.Account{ID: 42}
	db := a.DB.WithContext(ctx)
	if err := db.First(&account).Error; err != nil {
		return err
	}
	account.Balance -= amount
	return db.Save(&account).Error
}

func code(t *testing.T, a *example.Accounts, name string) bank.Code {
	if name == "the plugin" {
		require.NoError(t, a.DB.Use(&example.Fence{Guard: a.Fence}))
	}
	return coded(a, spends[name])
}

func coded(a *example.Accounts, s spend) bank.Code {
	return bank.Code{
		Claim: a.Fence.Admit,
		Spend: func(ctx context.Context, amount int64) error { return s(ctx, a, amount) },
		Balance: func(ctx context.Context) (int64, error) {
			account := example.Account{ID: 42}
			err := a.DB.WithContext(ctx).First(&account).Error
			return account.Balance, err
		},
	}
}

func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	for name := range spends {
		for also, config := range map[string]gorm.Config{"": {}, ", with PrepareStmt": {PrepareStmt: true}} {
			t.Run(name+also, func(t *testing.T) {
				t.Parallel()
				code(t, open(t, config), name).Refused(t)
			})
		}
	}
	t.Run("without a guard it is let in", func(t *testing.T) {
		t.Parallel()
		coded(open(t, gorm.Config{}), plain).Corrupted(t)
	})
}

func TestItSurvivesThePause(t *testing.T) {
	t.Parallel()
	for name := range spends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code(t, open(t, gorm.Config{}), name).Survives(t)
		})
	}
}

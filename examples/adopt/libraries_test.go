package adopt_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// setting sets the balance under the token of ctx.
type setting func(ctx context.Context, fence *stdsql.Guard, balance int64) error

// writers are the functions of the page, each over a pool.
var writers = map[string]func(t *testing.T, db *sql.DB) setting{
	"database/sql": func(*testing.T, *sql.DB) setting { return adopt.DatabaseSQL },
	"squirrel":     func(*testing.T, *sql.DB) setting { return adopt.Squirrel },
	"ent":          func(*testing.T, *sql.DB) setting { return adopt.Ent },
	"GORM": func(t *testing.T, db *sql.DB) setting {
		over := overGORM(t, db, gorm.Config{})
		return func(ctx context.Context, fence *stdsql.Guard, balance int64) error {
			return adopt.GORM(ctx, over, fence, balance)
		}
	},
	"sqlx": func(_ *testing.T, db *sql.DB) setting {
		over := sqlx.NewDb(db, "pgx")
		return func(ctx context.Context, fence *stdsql.Guard, balance int64) error {
			return adopt.SQLX(ctx, over, fence, balance)
		}
	},
	"bun": func(_ *testing.T, db *sql.DB) setting {
		over := bun.NewDB(db, pgdialect.New())
		return func(ctx context.Context, fence *stdsql.Guard, balance int64) error {
			return adopt.Bun(ctx, over, fence, balance)
		}
	},
}

func overGORM(t *testing.T, db *sql.DB, config gorm.Config) *gorm.DB {
	t.Helper()
	config.Logger = logger.Discard
	over, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &config)
	require.NoError(t, err)
	return over
}

// plain returns a database for this test only, over database/sql.
func plain(t *testing.T) *sql.DB {
	t.Helper()
	db := stdlib.OpenDBFromPool(database(t))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func balanceOf(ctx context.Context, db *sql.DB) (balance int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance)
	return balance, err
}

// TestALateWriterOfEachLibrary pauses a holder between its read and its write, until its
// lock has ended and its successor has written.
func TestALateWriterOfEachLibrary(t *testing.T) {
	t.Parallel()
	for name, open := range writers {
		for _, observe := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ": refused", true: ": the twin without a guard is corrupted"}[observe], func(t *testing.T) {
				t.Parallel()
				db := plain(t)
				fence := &stdsql.Guard{DB: db, IdleTimeout: time.Hour, DangerouslyReportOnly: observe, Hooks: quiet}
				balance, late := overtaken(t, db, fence, open(t, db))
				if observe {
					require.NoError(t, late)
					require.Equal(t, int64(50), balance, "the successor's value is overwritten")
					return
				}
				require.ErrorIs(t, late, guard.ErrStale)
				require.Equal(t, int64(110), balance, "the successor's value is kept")
			})
		}
	}
}

var quiet = guard.Hooks{Reported: func(context.Context, error) {}}

// overtaken returns the final balance and the late writer's error.
func overtaken(t *testing.T, db *sql.DB, fence *stdsql.Guard, set setting) (balance int64, late error) {
	t.Helper()
	client, prefix := testenv.Redis(t)
	locks := redsync.New(goredis.NewPool(client))
	mutex := func() *redsync.Mutex {
		return locks.NewMutex(prefix+"account/42", redsync.WithExpiry(50*time.Millisecond), redsync.WithTries(10_000))
	}
	add := func(amount int64, meanwhile func()) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			seen, err := balanceOf(ctx, db)
			if err != nil {
				return err
			}
			meanwhile()
			return set(ctx, fence, seen+amount)
		}
	}
	late = adopt.Numbered(t.Context(), mutex(), fence, add(-50, func() {
		require.NoError(t, adopt.Numbered(t.Context(), mutex(), fence, add(10, func() {})))
	}))
	balance, err := balanceOf(t.Context(), db)
	require.NoError(t, err)
	return balance, late
}

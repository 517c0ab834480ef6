package gorm

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Update is fence.Update for GORM: fn gets a *gorm.DB that is in the guard's
// transaction. Its errors are those of fence.Update.
func Update(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, resource string, fn func(tx *gorm.DB) error) error {
	return fence.Update(ctx, resource, func(tx *sql.Tx) error {
		inside := db.Session(&gorm.Session{Context: ctx, NewDB: true})
		inside.Statement.ConnPool = tx // as gorm.DB.Begin does
		return fn(inside)
	})
}

// Tx is the transaction that tx is in, for fence.Join. Outside of one it is
// something that Join refuses.
func Tx(tx *gorm.DB) stdsql.Tx { return tx.Statement.ConnPool }

// Retry runs a guarded transaction again, up to five times, while a concurrent
// one was in its way. Nothing was applied then; a token that has become stale
// meanwhile is refused by the next run.
func Retry(ctx context.Context, run func(ctx context.Context) error) (err error) {
	for range 5 {
		if err = run(ctx); !errors.Is(err, guard.ErrRetryable) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

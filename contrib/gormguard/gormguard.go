package gormguard

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Update is [stdsql.Guard.Update] for GORM: fn gets a *gorm.DB in a transaction of
// fence.DB, in which the token that ctx carries for resource was admitted. db provides
// the dialect, the naming and the plugins, and its pool is not used.
//
// A nil error means that the transaction was committed. fn must write only through tx,
// and must not call its Commit or Rollback. The other rules for fn and the errors are
// those of [stdsql.Guard.Update]. If db is in a transaction, Update returns an error and
// fn does not run: its writes would be in another transaction than db's. Call
// [stdsql.Guard.Join] with [Tx] there.
func Update(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, resource string, fn func(tx *gorm.DB) error) error {
	return UpdateAll(ctx, db, fence, []string{resource}, fn)
}

// UpdateAll is [Update] for several resources, as in [stdsql.Guard.UpdateAll]: all are
// admitted before fn runs, or none, in bytewise order.
func UpdateAll(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, resources []string, fn func(tx *gorm.DB) error) error {
	if err := checkPool(db); err != nil {
		return err
	}
	return fence.UpdateAll(ctx, resources, func(tx *sql.Tx) error { return fn(in(ctx, db, tx)) })
}

// Once is [stdsql.Guard.Once] for GORM: fn's writes and the record of the unit are one
// transaction, and a repeat returns the first result without running fn. db and tx are
// those of [Update]. The errors are those of [stdsql.Guard.Once], and that of [Update] if
// db is in a transaction.
func Once(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, resource string, unit guard.Unit, fn func(tx *gorm.DB) ([]byte, error)) ([]byte, error) {
	if err := checkPool(db); err != nil {
		return nil, err
	}
	return fence.Once(ctx, resource, unit, func(tx *sql.Tx) ([]byte, error) { return fn(in(ctx, db, tx)) })
}

// Tx returns the transaction of tx, for [stdsql.Guard.Join]. If tx is in no transaction,
// it returns a value that Join refuses.
func Tx(tx *gorm.DB) stdsql.Tx { return tx.Statement.ConnPool }

var errInTx = errors.New("gormguard: db is in a transaction, and the guard begins its own: call Join with Tx(db) there, or pass a db in none")

func checkPool(db *gorm.DB) error {
	if _, open := db.Statement.ConnPool.(gorm.TxCommitter); open {
		return errInTx
	}
	return nil
}

// in returns db in the transaction tx, as gorm.DB.Begin does.
func in(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	session := db.Session(&gorm.Session{Context: ctx, NewDB: true})
	session.Statement.ConnPool = tx
	return session
}

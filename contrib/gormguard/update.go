package gormguard

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Update is [stdsql.Guard.Update] for GORM: fn gets a *gorm.DB in the guard's
// transaction, in which the token that ctx carries for resource was admitted. db provides
// the dialect, the naming and the plugins. The connection is one of guard.DB.
//
// A nil error means that the transaction was committed. fn must write only through tx: a
// write through db is another transaction, and is not fenced. The rules for fn and the
// errors are those of [stdsql.Guard.Update]. fn's own error is returned unchanged, or
// joined to the outcome that it means.
func Update(ctx context.Context, db *gorm.DB, guard *stdsql.Guard, resource string, fn func(tx *gorm.DB) error) error {
	return UpdateAll(ctx, db, guard, []string{resource}, fn)
}

// UpdateAll is [Update] for several resources, as in [stdsql.Guard.UpdateAll]: all are
// admitted before fn runs, or none, in bytewise order.
func UpdateAll(ctx context.Context, db *gorm.DB, guard *stdsql.Guard, resources []string, fn func(tx *gorm.DB) error) error {
	return guard.UpdateAll(ctx, resources, func(tx *sql.Tx) error {
		session := db.Session(&gorm.Session{Context: ctx, NewDB: true})
		session.Statement.ConnPool = tx // as gorm.DB.Begin does
		return fn(session)
	})
}

// Tx returns the transaction of tx, for [stdsql.Guard.Join]. If tx is in no transaction,
// it returns a value that Join refuses.
func Tx(tx *gorm.DB) stdsql.Tx {
	if prepared, is := tx.Statement.ConnPool.(*gorm.PreparedStmtTX); is {
		return prepared.Tx // a refusal inside Update must reach the *sql.Tx that Update began
	}
	return tx.Statement.ConnPool
}

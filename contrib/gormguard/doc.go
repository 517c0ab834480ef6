// Package gormguard fences the writes of GORM on PostgreSQL, MySQL, MariaDB and SQLite.
// It is a separate module, so that only its users depend on GORM.
//
// # What it is
//
//	Update(ctx, db, guard, resource, fn)        GORM in a transaction of the guard's
//	UpdateAll(ctx, db, guard, resources, fn)    the same for several resources
//	Once(ctx, db, guard, resource, unit, fn)    the same for a unit of work, applied once
//	guard.Join(ctx, Tx(tx), resource)           first in a db.Transaction of the caller's
//
// guard is a [stdsql.Guard] with the Dialect of db. The first three claim a token that
// was not claimed, and return the outcome of the COMMIT. With Join, GORM begins and
// commits the transaction: use the guard's Admit as lock.Locker.Claim, and expect the
// driver's own error of a COMMIT, which may have been applied.
//
// The caller names the resource. Nothing is derived from a model or a statement: a row
// that two statements select by different texts ('42' and '042', two cases under a
// case-insensitive collation) would have two names and two marks.
//
// # What it promises
//
//   - A write through tx is applied only if the token was admitted for the resource, in
//     the same transaction. After a refusal fn does not run.
//   - GORM's hooks, associations, nested transactions, SkipDefaultTransaction and
//     PrepareStmt run in that transaction. So does everything that they write.
//   - errors.Is finds the guard's errors, whatever GORM's TranslateError is.
//
// # What it does not do
//
//   - A write through db, or through another *gorm.DB, inside fn is another transaction
//     and is not fenced. A test with package simulations detects it. On PostgreSQL,
//     fencepost.protect refuses it in the server.
//   - The guard does not compare the rows that fn writes with the resource. That is up to
//     fn.
//   - GORM returns errors in DB.Error. If fn ignores one and returns nil, MySQL and SQLite
//     commit the statements that succeeded.
//
// It requires GORM 1.25.2 or later.
//
// # Where next
//
//   - [stdsql.Guard.Update] for what fn must not do, and for the errors
//   - [stdsql.Guard.Once] for units of work
//   - [stdsql.Guard.Join] for transactions that other code begins
package gormguard

// Package gormguard fences the writes of GORM on PostgreSQL, MySQL, MariaDB and SQLite.
// It is a separate module, so that only its users depend on GORM.
//
// # What it is
//
//	Update(ctx, db, guard, resource, fn)        GORM in a transaction of the guard's
//	UpdateAll(ctx, db, guard, resources, fn)    the same for several resources
//	guard.Join(ctx, Tx(tx), resource)           first in a db.Transaction of the caller's
//	db.Use(&Plugin{Guard: guard})               every Create, Save, Update and Delete by itself
//
// guard is a [stdsql.Guard] with the Dialect of db. Update and UpdateAll claim a token
// that was not claimed, and return the outcome of the COMMIT. With the other two, GORM
// begins and commits the transaction: use the guard's Admit as lock.Locker.Claim, and
// expect the driver's own errors.
//
// # The plugin
//
// A model names its resource by [Fenced], or several by [FencedAll]. Before a write of
// the model, the Plugin admits the tokens that the statement's context carries, in the
// transaction of the write. One Join admits all resources of a statement in bytewise
// order: those of its rows, and those of the associations that GORM saves with them, even
// if they exist already (Omit(clause.Associations) leaves them out). So two statements do
// not deadlock because of the guard. On PostgreSQL a statement may have 1,000 resources.
//
// The Plugin fences these, for the rows that the caller gives by their primary keys, as
// the model or a slice of models:
//
//   - Create, CreateInBatches, FirstOrCreate, Save, with ON CONFLICT of the primary key
//     or DO NOTHING.
//   - Update, Updates, UpdateColumn, UpdateColumns, with Select, Omit, RETURNING and
//     conditions. The conditions are put into parentheses, and the keys are added.
//   - Delete, softly or Unscoped.
//   - All of them under SkipHooks, AllowGlobalUpdate, PrepareStmt, FullSaveAssociations,
//     in nested transactions, and inside hooks. If a savepoint undoes an admission, the
//     next statement admits again.
//
// The Plugin refuses these with [ErrCannotFence], and nothing is applied:
//
//   - An UPDATE or DELETE without the keys of its rows: by conditions, by inline keys
//     (db.Delete(&Account{}, 42)), by gorm.G, or for all rows. Also conditions joined by
//     Or outside a group. They could write rows with other names.
//   - Create of a map, or without the key.
//   - An assignment to the primary key. Also a row to which a hook, or a key that the
//     database generated, gave a name that was not admitted.
//   - ON CONFLICT DO UPDATE of other columns or of a constraint. On MySQL, every DO
//     UPDATE of a table with a unique index besides the primary key, since any of them
//     may select the updated row. GORM uses DO UPDATE to Save a slice, to Save a row
//     without changes, and to save associations.
//   - A statement whose table, FROM or modifier was replaced (INSERT OR REPLACE), or
//     whose text is raw SQL.
//   - A write outside a transaction (SkipDefaultTransaction).
//   - Select of associations in a Delete, and Association's Delete, Replace and Clear, of
//     fenced models: GORM runs them by conditions.
//
// # What it promises
//
//   - A fenced write whose token is stale is never applied. If a caller ignores the
//     refusal inside a transaction, nothing of the transaction is committed.
//   - errors.Is finds the guard's errors in GORM's.
//   - If the COMMIT of a fenced statement fails, the error is [guard.ErrUnknown].
//   - A dry run needs no token.
//
// # What it does not do
//
//   - These are not fenced: db.Exec, db.Raw, db.Table without the model, models of the
//     same table without Fenced, join tables of many2many, AutoMigrate, triggers, and ON
//     DELETE CASCADE. On PostgreSQL, fencepost.protect refuses such writes in the server.
//   - Text in a condition, a column or a table is SQL: unbalanced parentheses in it can
//     defeat the parentheses that the Plugin adds.
//   - The Plugin calls Resource on the model that the caller gives. If Resource depends
//     on a column besides the key, the row in the database may have another value: load
//     the row under the token first.
//   - Resources of several statements in one transaction, of hooks, and of the batches of
//     CreateInBatches are admitted statement by statement. To admit them in one order,
//     use UpdateAll or Join, or name them by FencedAll. Otherwise two transactions may
//     deadlock, and the server ends one with an error.
//   - Reads are not fenced. A read-modify-write needs Claim, or Update.
//   - Changes that other plugins make to a statement after [Plugin] has checked it are
//     not detected: install Plugin last.
//
// It requires GORM 1.25.2 or later.
//
//	guarded := &stdsql.Guard{DB: sqlDB}
//	err := db.Use(&gormguard.Plugin{Guard: guarded})
//	locks := &lock.Locker{Issuer: issuer, Claim: guarded.Admit}
//	err = locks.Hold(ctx, "account/42", func(ctx context.Context) error {
//		return db.WithContext(ctx).Model(&Account{ID: 42}).Update("balance", 70).Error
//	})
//
// # Where next
//
//   - [Update] for what fn must not do
//   - [stdsql.Guard.Join] for transactions that other code begins
//   - package stdsql for the dialects
package gormguard

// The files of this package, in reading order:
//
//	update.go     GORM in a transaction of the guard's (Update, UpdateAll); the transaction to
//	              give to Join (Tx)
//	plugin.go     the callbacks around Create, Update and Delete; a row that changed after the
//	              admission ("was not admitted"); report-only mode; a failed COMMIT
//	confine.go    which statements are refused: a model without its primary key, raw SQL, Or, an
//	              assignment to the key, ON CONFLICT; the keys that are added to a WHERE
//	resources.go  the resources of a statement: of its rows, and of the associations that GORM
//	              saves; "give the row"; "names no resource"; "there is no transaction"

// Package rowguard fences rows of PostgreSQL that carry their own mark, over pgx.
//
// # What it is
//
// A [Table] keeps the mark of each row in two columns beside the data:
//
//	Update            statement                      if the row's mark admits the token
//	Insert, Upsert    admit·statement                the marks table admits, too
//	Delete            admit·statement                and the mark stays there
//	Claim             BEGIN·admit·raise·COMMIT       both marks, for lock.Locker
//	Fence             the condition                  for hand-written statements
//
// Fence sends nothing; each of the others is one round trip. The Table writes through a
// [sqlguard.Guard], which has the database, the schema of the marks, the hooks, and the
// modes.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied, even if its holder was
//     paused before it, for however long.
//   - An Update costs as much as the unguarded statement.
//   - A deleted row leaves its mark in the marks table, so an older token cannot insert
//     the row again.
//   - A write has one outcome, which errors.Is finds: see package guard.
//
// # What it does not do
//
//   - A Table compares tokens by resource name. A row that is written under two resource
//     names, or by a statement without the condition, is not fenced.
//   - A row is not fenced if only its mark in the marks table was claimed, by
//     [sqlguard.Guard.Admit]. Claim with [Table.Claim].
//   - A key has one column.
//   - Two rows in one statement are not written atomically: one may be refused and the
//     other written. See [sqlguard.Guard.UpdateAll].
//
// A claim, and an update under it:
//
//	accounts := &rowguard.Table{Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
//	locks := &lock.Locker{Issuer: issuer, Claim: accounts.Claim}
//	err := locks.Hold(ctx, "account/42", func(ctx context.Context) error {
//		return accounts.Update(ctx, 42, rowguard.Set{"balance": 70})
//	})
//	if errors.Is(err, guard.ErrStale) {
//		return err // the lock has passed on: nothing was written
//	}
//
// # Where next
//
//   - [Table] for keys, names and outcomes
//   - [Table.Fence] for joins, CTEs and queues
//   - package migrations for the columns
//   - package sqlguard for transactions that write more than one row
package rowguard

// The files of this package, in reading order:
//
//	table.go     the settings; Update, Insert, Upsert, Delete, Claim; which of the two marks
//	             decides: the row's or the marks table's; a claim of another Prefix
//	write.go     how a write is sent: alone, after an admission, or report-only; a row without a
//	             mark: sent again; an INSERT that inserted no row; the claim of both marks
//	fence.go     the condition for hand-written statements; why no row was written (Explain):
//	             stale, no such row, no mark yet, a key in another spelling, a trigger
//	key.go       the text of a key: which Go types are refused; UUIDs; nil
//	sql.go       the text of each statement; a mark's rule in SQL, for a row without a mark too;
//	             which names of tables and columns are refused; a Set of the key or of the mark
//	update.sql   the Update, and the raise of a claim
//	insert.sql   the Insert; checks the key and the mark of the new row
//	upsert.sql   the Upsert
//	delete.sql   the Delete
//	check.sql    a claim fails if the row has not taken the mark, or writes the key differently
//	mark.sql     report-only mode: reads the row's mark and locks the row
//	explain.sql  the row, its marks, rules and triggers after a write that matched no row

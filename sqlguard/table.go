package sqlguard

import "github.com/jackc/pgx/v5"

// Table fences rows that carry their own mark, in two columns beside the data.
// An update is then one plain conditional statement that costs what the
// unguarded one does:
//
//	accounts := &sqlguard.Table{Guard: g, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
//	err := accounts.Update(ctx, 42, sqlguard.Set{{"balance", 70}})
//
//	UPDATE accounts SET balance = 70, last_token = $n, last_holder = $h
//	 WHERE id = 42 AND (last_token < $n OR last_token = $n AND last_holder = $h)
//
// It writes rows by their key and is no mapper: for every other statement there
// is [Table.Fence]. The columns are added by fencepost.add_mark_columns (see
// package migrations), or are whatever the table has already.
//
// # One name, one mark
//
// The resource is Prefix and the key's text, as the table writes it: the row 42
// is never written under the token of another. A key that the table writes
// differently ("042", a UUID in capitals) matches no row and is an error.
// Strings, integers, UUIDs ([16]byte, and types made of it), and what is a
// [database/sql/driver.Valuer] or a [fmt.Stringer] of these are keys; the text goes to the
// server, for the column's own type.
//
// The row is the mark: whoever reads a row before writing it claims the row's
// token with [Table.Claim]. [Guard.Admit] and [Mint] raise the marks table alone,
// which Update does not ask, and would leave the row open to older writers. For
// the same reason what Update writes must not also be written through
// [Guard.Update] or [Guard.On] by a holder that has not claimed by Table.Claim,
// which raises both. Insert, Upsert and Delete ask both: a row that is not there
// has no mark, so theirs is in the marks table, and stays when the row is gone.
// So rows must not come and go otherwise, or only within [Guard.Update]; and no
// two tables may have one Prefix. A row whose mark nobody has made yet (0, or
// NULL) is judged by the marks table.
//
// The text of a key must not depend on the session: a date's does, on DateStyle.
// Claim and Insert refuse such types, floats, money and bytea too.
//
// # Outcomes
//
// Those of a guarded write: nil, [guard.ErrStale], [guard.ErrCollision],
// [guard.ErrNoRow], [guard.ErrRetryable], [guard.ErrUnknown], and the others of
// [Guard.Update]. Where a statement has matched no row, a second query tells
// stale from missing. Where that finds a mark that admits the token, the row was
// inserted between the two or a row security policy hides it from the write:
// ErrRetryable, and no use to try for ever. ErrUnknown where the table has a rule,
// or a trigger that may have written something in the row's place.
//
// A trigger that keeps the columns of the mark as they are unmakes the fence;
// Claim, Insert and Upsert notice.
//
// A Table is cheap, and safe for concurrent use where its Guard is; its fields
// must not change after first use.
type Table struct {
	// Guard has the database, the schema of the marks, Idle, the observer, and
	// observe-only mode. Its Tx is for the writes that begin a transaction:
	// Insert, Upsert, Delete, and all where Protected is set. Required.
	//
	// Where Guard.DB is a pgx.Tx, each write is admitted and made in one packet
	// of that transaction, which then may be idle for Idle at most. A refusal
	// by the marks table leaves it aborted; one by the row does not, and has
	// written nothing. Give such a guard to a copy of the Table.
	Guard *Guard
	// Name is the table, with its schema or without. Required.
	Name pgx.Identifier
	// Key is the key column: unique, not null, and never changed. Empty means
	// "id". A key of several columns is not supported.
	Key string
	// Prefix is what the resource's name has before the key's text, the kind of
	// thing that it is: "account/". Required.
	Prefix string
	// Number and Holder are the columns of the mark: bigint and text. Empty
	// means "last_token" and "last_holder". NULL is a mark that nobody has made
	// yet. They belong in no index: else no update is heap-only (HOT) any more.
	Number, Holder string
	// Protected says that fencepost.protect guards the table. Update is then
	// admitted in the marks table too, in the same packet; it costs what
	// Guard.On does.
	Protected bool
}

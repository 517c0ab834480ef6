package rowguard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Table fences rows that carry their own mark, in two columns beside the data. An update
// is one conditional statement that costs as much as the unguarded one:
//
//	accounts := &rowguard.Table{Guard: g, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
//	err := accounts.Update(ctx, 42, rowguard.Set{"balance": 70})
//
//	UPDATE accounts SET balance = 70, last_token = $n, last_holder = $h
//	 WHERE id = 42 AND (last_token < $n OR last_token = $n AND last_holder = $h)
//
// A Table writes single rows by their key. For every other statement use [Table.Fence].
// Add the columns with fencepost.add_mark_columns (see package migrations), or name
// existing ones.
//
// # Keys and resource names
//
// A row's resource is Prefix followed by the text that the table has for the key. So row
// 42 is never written under the token of another row. A key whose text differs from the
// table's ("042", a UUID in capitals) matches no row and is an error. No two tables may
// share a Prefix.
//
// A key in Go is a string, an integer, a UUID ([16]byte or a type based on it), or a
// [database/sql/driver.Valuer] or [fmt.Stringer] that returns one of these. Its text is
// sent to the server, which converts it to the column's type.
//
// A key must have one text. If the text depends on the session, as that of a date depends
// on DateStyle, or if equal keys have different texts, as 1.0 and 1.00, a row has several
// names, and a mark for each. The key column may be an integer, numeric with a scale,
// text or varchar under a deterministic collation, char(n), uuid, boolean, enum, network
// address or bit string, or a domain over these. Claim, Insert, Upsert and the first
// Update of a row refuse every other type, and the row stays as it was: dates, times,
// intervals, floats, money, bytea, ranges, arrays, and types of extensions, including
// citext. A value of an enum must not be renamed while a row has it.
//
// # Two marks
//
// A resource has a mark in its row and a mark in the marks table. Update compares the
// token with the row's mark alone, unless Protected is set or Guard.DB is a pgx.Tx. A row
// without a mark (0, or NULL) is decided by the marks table. Insert, Upsert and Delete
// use both: a row that does not exist has its mark in the marks table only. Hence three
// rules:
//
//   - A program that reads a row before it writes it must claim the token with
//     [Table.Claim], which raises both marks. [sqlguard.Guard.Admit] and
//     [sqlguard.Guard.Mint] raise the marks table only, and older tokens could still
//     Update the row.
//   - A row that Update writes must not also be written through [sqlguard.Guard.Update]
//     or [sqlguard.Guard.On], unless the holder has claimed with Table.Claim.
//   - Rows must be inserted and deleted through the Table, or within
//     [sqlguard.Guard.Update].
//
// # Outcomes
//
// The outcomes are those of [sqlguard.Guard.Update] and [guard.ErrRowNotFound]. If a
// statement matched no row, a second query finds out why: the token is stale, or the row
// is missing. If that query finds a mark that admits the token, the error is
//
//   - [guard.ErrRetryable] in general: the row was inserted between the two statements,
//     or a row security policy hides it from the write. Bound the retries, since in the
//     second case each one fails.
//   - [guard.ErrUnknown] if the table has a rule, or a trigger that may have written
//     something in place of the row.
//
// A trigger that undoes changes to the columns of the mark disables the fence. Claim,
// Insert and Upsert return an error if they find that.
//
// A Table is cheap, and safe for concurrent use if its Guard is. Its fields must not
// change after first use.
type Table struct {
	// Guard has the database, the schema of the marks, IdleTimeout, the hooks, and
	// report-only mode. Its Tx is for the writes that begin a transaction: Insert, Upsert
	// and Delete, and Update if Protected is set. Required.
	//
	// If Guard.DB is a pgx.Tx, each write is one batch of that transaction, with its
	// admission, and the transaction may then be idle for IdleTimeout at most. A refusal
	// by the marks table leaves it aborted. A refusal by the row does not, and has
	// written nothing. Set such a guard in a copy of the Table.
	Guard *sqlguard.Guard
	// Name is the table's name, with or without its schema. Required.
	Name pgx.Identifier
	// Key is the name of the key column. The column must be unique, not null, and never
	// changed. Keys of several columns are not supported. Empty means "id".
	Key string
	// Prefix is the part of the resource's name before the key's text, usually the kind
	// of thing: "account/". Required.
	Prefix string
	// Number and Holder are the names of the mark's columns, of types bigint and text. A
	// NULL in them is no mark. Do not index them: an update of an indexed column cannot
	// be heap-only (HOT). Empty means "last_token" and "last_holder".
	Number, Holder string
	// Protected means that fencepost.protect guards the table. Update then also has the
	// token admitted by the marks table, in the same batch, and costs as much as
	// Guard.On. False means that Update uses the row's mark alone.
	Protected bool
}

var (
	_ guard.Store      = (*Table)(nil)
	_ guard.Identified = (*Table)(nil)
)

// Identity implements [guard.Identified]. It is the identity of the Guard.
func (t *Table) Identity() any { return t.Guard.Identity() }

// Set maps the columns that a write sets to their values:
//
//	rowguard.Set{"balance": 70, "changed_at": time.Now()}
//
// A map key is a column's name as it is in the database, unquoted. Its value is any value
// that pgx accepts for the column. The table's key and the columns of the mark are
// errors. Columns are sent in the bytewise order of their names.
type Set map[string]any

var errNothingSet = errors.New("rowguard: Update with an empty set: call Claim to raise the row's mark")

// Update sets columns of the row of key, and raises its mark, if the row's mark admits
// the token that ctx carries for it. It sends one statement, as pgx's Exec does, in a
// transaction of its own, at the session's isolation level. If there is no such row, it
// returns [guard.ErrRowNotFound], or a refusal if the row was deleted under a newer
// token. A set without columns is an error.
//
// A row without a mark (0, or NULL) is decided by the marks table, in two more round
// trips, once. A row that was claimed has a mark.
//
// If ctx ends before the statement was sent, nothing is sent. If it ends later, the
// statement is cut off ([guard.ErrUnknown]). If the lease is lost, the statement may take
// 30 s more, and the row's mark decides.
func (t *Table) Update(ctx context.Context, key any, set Set) error {
	if len(set) == 0 {
		return errNothingSet
	}
	return t.write(ctx, verbUpdate, key, set, t.Protected)
}

// Insert inserts the row of key, with its mark. The marks table admits the token first,
// in the same batch as in [sqlguard.Guard.On], since a row that does not exist has no
// mark, and an earlier row may have been deleted under a newer token. If a row with that
// key exists, Insert returns the driver's error (SQLSTATE 23505), with nothing applied.
// The set may be empty.
func (t *Table) Insert(ctx context.Context, key any, set Set) error {
	return t.write(ctx, verbInsert, key, set, true)
}

// Upsert inserts the row of key, or updates it if it exists: see [Table.Insert] and
// [Table.Update]. Key must be the table's primary key or have a unique index of its own.
// If the set is empty, Upsert creates the row or raises its mark.
func (t *Table) Upsert(ctx context.Context, key any, set Set) error {
	return t.write(ctx, verbUpsert, key, set, true)
}

// Delete deletes the row of key, and its mark with it. The marks table admits the token
// first, in the same batch, and keeps the mark: an older token cannot insert the row
// again.
func (t *Table) Delete(ctx context.Context, key any) error {
	return t.write(ctx, verbDelete, key, nil, true)
}

// Claim raises both marks of tok's resource to tok, the row's and the marks table's, in a
// transaction of its own, in one round trip. Use it as
// [github.com/fencepost/fencepost/lock.Locker.Claim]:
//
//	locks := &lock.Locker{Issuer: issuer, Claim: accounts.Claim}
//
// When it returns nil, no older token can write the row any more, and every older write
// is visible. The claim is durable, whatever the session's synchronous_commit. If either
// mark refuses the token, neither is raised. If the row does not exist, or a policy hides
// it from the role, the marks table alone is raised, and decides a later insert.
//
// Claim returns an error and raises neither mark if a trigger, a rule or a policy
// prevents the row from carrying the mark, if the key's type is refused, if the table
// writes the key differently, or if the resource does not begin with Prefix, whether the
// row exists or not. Its waits and its other errors are those of [sqlguard.Guard.Admit].
// It may be repeated.
//
// In two cases Claim waits for the row's lock until ctx ends:
//
//   - A transaction has locked the row without an admission (see [Fence]).
//   - The connection of a [Table.Update] was lost after all but the end of its batch had
//     arrived. The server keeps the row locked until TCP keepalives find that
//     (tcp_keepalives_idle).
func (t *Table) Claim(ctx context.Context, tok token.Token) error {
	w, err := t.open(ctx)
	if err != nil {
		return err
	}
	if err := tok.Validate(); err != nil {
		return t.Guard.Hooks.Outcome(ctx, err, t.Guard.DangerouslyReportOnly)
	}
	text, ok := strings.CutPrefix(tok.Resource, t.Prefix)
	if !ok {
		return fmt.Errorf("rowguard: claim of %s: the names of this table's rows begin with %q", tok, t.Prefix)
	}
	w.text, w.tok = text, tok
	return w.claim(ctx)
}

// Admit is [Table.Claim]. It implements [guard.Store].
func (t *Table) Admit(ctx context.Context, tok token.Token) error { return t.Claim(ctx, tok) }

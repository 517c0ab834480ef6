package rowguard

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgwrite"
	"github.com/fencepost/fencepost/token"
)

// Fence makes a hand-written statement on a row of a [Table] conditional on the row's
// token: the statement writes the row only if the row's mark admits the token. A check
// before the statement would be out of date when the statement runs. A Fence is a value
// and may be used for any number of statements while the token is held.
//
//	own, err := accounts.Fence(ctx, 42)
//	if err != nil {
//		return err
//	}
//	f := own.Clauses("a", 50)
//	tag, err := pool.Exec(ctx, `
//		UPDATE accounts AS a SET balance = a.balance - $1, `+f.Set+`
//		 WHERE `+f.Where+` AND a.balance >= $1`, f.Args...)
//	if err == nil && tag.RowsAffected() == 0 {
//		err = accounts.Explain(ctx, 42)
//	}
//
// # Where the condition must stand
//
// The condition must be in the statement that writes the row, in one of two places:
//
//   - joined by AND to the WHERE of an UPDATE or DELETE whose target is the alias
//   - in a SELECT of the same statement that locks the row, FOR UPDATE or FOR NO KEY
//     UPDATE, with or without SKIP LOCKED
//
// Only there does PostgreSQL evaluate the condition again, on the updated row, after it
// waited for an older writer (manual, 13.2.1 Read Committed Isolation Level). In a
// sub-select without a lock, in an earlier query, or on a copy of the row in a join, the
// condition is evaluated on the row as of the statement's start, and a stale write is
// applied. Other tables that the statement writes are fenced if they take their rows from
// this statement's RETURNING. Two fenced rows in one statement are not written
// atomically: use [sqlguard.Guard.UpdateAll] for that.
//
// Every UPDATE must have [Clauses.Set]: if a write does not raise the mark, an older
// token can overwrite it later. Insert rows with [Table.Insert] or [Table.Upsert] and
// delete them with [Table.Delete], or do both within [sqlguard.Guard.Update], since the
// marks table must be raised too.
//
// In a transaction of the caller's such a statement locks the row until the transaction
// ends, and a successor waits for that. Call [sqlguard.Guard.Join] before the first
// statement to bound the wait.
type Fence struct {
	table *Table
	tok   token.Token
	text  string // text form of the key
	rule  rule
}

// Fence returns the Fence of the row of key, for the token that ctx carries for it. It
// returns the token package's error if the token is missing, released or incomplete, and
// an error if the Table or the key is invalid. It sends nothing.
func (t *Table) Fence(ctx context.Context, key any) (Fence, error) {
	w, err := t.rowOp(ctx, key)
	if err == nil {
		err = t.checkNames(nil)
	}
	if err != nil {
		return Fence{}, err
	}
	f := Fence{table: t, tok: w.tok, text: w.text}
	if w.DangerouslyReportOnly {
		f.rule = noRule
	}
	return f, nil
}

// Clauses are the parts of a statement with a [Fence]. Use them together: Set and Where
// use the placeholders that Args fills.
type Clauses struct {
	// Set has the assignments that raise the row's mark, for the SET of an UPDATE. In
	// report-only mode they never lower it. It is empty for the zero Fence.
	Set string
	// Where is a condition for the WHERE. It is true for the row of the key if the row's
	// mark admits the token. It does not match a row without a mark (0, or NULL): call
	// [Table.Claim] first. In report-only mode the condition only selects the row, and no
	// hook is called. It is false for the zero Fence.
	Where string
	// Args has the statement's own arguments, followed by four of the Fence. The zero
	// Fence adds none.
	Args []any
}

// Clauses returns the SET, the WHERE and the arguments of a statement. alias is the
// table's alias in the statement, or "" if it has none. It is quoted verbatim. args
// are the values of the statement's own placeholders, $1 to $n, without pgx's option
// arguments, and without named ones. The Fence's placeholders have the four numbers after
// n, so a statement must use Where.
//
// A statement with two fences passes the Args of the first Clauses to the second call,
// and is sent with the Args of the second. If Set and Where need different aliases, call
// Clauses twice with the same args: both calls use the same placeholders.
func (f Fence) Clauses(alias string, args ...any) Clauses {
	p := placeholdersFrom(len(args) + 1)
	c := Clauses{Set: f.set(alias, p), Where: f.where(alias, p), Args: slices.Clone(args)}
	if f.table != nil {
		c.Args = append(c.Args, f.text, f.text, f.tok.Number, f.tok.Holder)
	}
	return c
}

func (f Fence) where(alias string, p placeholders) string {
	if f.table == nil {
		return "(false)"
	}
	c := f.table.columns(alias)
	admits := c.admits(f.rule, p)
	if f.rule == noRule {
		admits = "(" + p.number + "::bigint, " + p.holder + "::pg_catalog.text) IS NOT NULL"
	}
	return "(" + c.key + " = " + p.key + " AND " + c.key + `::pg_catalog.text COLLATE "C" = ` + p.text + " AND " + admits + ")"
}

func (f Fence) set(alias string, p placeholders) string {
	if f.table == nil {
		return ""
	}
	c := f.table.columns(alias)
	number, holder := p.number+"::bigint", p.holder+"::pg_catalog.text"
	if f.rule == noRule {
		admits := "CASE WHEN " + c.admits(f.rule, p) + " THEN "
		number = admits + number + " ELSE " + c.number + " END"
		holder = admits + holder + " ELSE " + c.holder + " END"
	}
	plain := f.table.columns("")
	return plain.number + " = " + number + ", " + plain.holder + " = " + holder
}

// placeholders stand for the key (twice), the token's number, and its holder.
type placeholders struct{ key, text, number, holder string }

// placeholdersFrom returns the numbered placeholders from first on.
func placeholdersFrom(first int) placeholders {
	n := func(i int) string { return "$" + strconv.Itoa(first+i) }
	return placeholders{n(0), n(1), n(2), n(3)}
}

// Explain returns why a hand-written statement with a [Fence] matched no row. The error
// is never nil, so it can be returned for such a statement:
//
//   - [guard.ErrStale] or [guard.ErrCollision] if the row's mark refuses the token, or
//     the mark in the marks table if the row does not exist.
//   - [guard.ErrRowNotFound] if no mark refuses the token, and the row does not exist or
//     another condition of the statement, a trigger or a row security policy prevented
//     the write. The error's text distinguishes the two.
//   - [guard.ErrClaimFirst] if the row has no mark yet and no mark refuses the token.
//     Call [Table.Claim].
//   - another error if the table writes the key differently, or if the query failed.
//     Nothing was applied in these cases either.
//
// There is one exception. If the row had no mark, and another writer with this token or
// an older one created it between the statement and Explain, the error is
// [guard.ErrRowNotFound] too, because a row does not show when its mark was created. Call
// [Table.Claim] before the first statement. Without it, run the statement a second time
// after the error: the row has a mark then, and a second [guard.ErrRowNotFound] is exact.
//
// Explain reads in one round trip and locks nothing. If the statement was part of a
// transaction, Guard.DB should be that transaction.
func (t *Table) Explain(ctx context.Context, key any) error {
	w, err := t.rowOp(ctx, key)
	if err != nil {
		return err
	}
	return w.explain(ctx, true, true)
}

// explanation is the result of explain.sql.
type explanation struct {
	key       *string
	row, mark *guard.Mark
	elsewhere bool // a rule or trigger may have written something in the row's place
}

// explain returns the error of a statement that wrote no row: see [Table.Explain].
// ownConditions means that the statement was hand-written, with conditions of its own.
// marked means that the row must have a mark of its own.
func (w *rowOp) explain(ctx context.Context, ownConditions, marked bool) error {
	e, err := w.queryExplanation(ctx)
	if err != nil {
		return guard.WithCause(ctx, fmt.Errorf("rowguard: no row of %s was written, and the query for the reason failed: %w", w.resource(), err))
	}
	if e.key != nil && *e.key != w.text {
		return fmt.Errorf("rowguard: the key %q is %q in %s: name the resource as the table writes the key", w.text, *e.key, w.table.Name.Sanitize())
	}
	for _, mark := range []*guard.Mark{e.row, e.mark} {
		if mark == nil || w.tok == (token.Token{}) {
			continue
		}
		if err := mark.Admits(w.tok); err != nil {
			if err = w.Hooks.Outcome(ctx, err, w.DangerouslyReportOnly); err != nil {
				return guard.WithCause(ctx, err)
			}
			break // reported once
		}
	}
	if e.key != nil && marked && e.row == nil && !w.DangerouslyReportOnly {
		return guard.WithCause(ctx, &pgwrite.OutcomeError{Outcome: guard.ErrClaimFirst, Err: fmt.Errorf("rowguard: the row of %s has no mark yet", w.resource())})
	}
	if e.key != nil {
		return guard.WithCause(ctx, &pgwrite.OutcomeError{Outcome: e.admitted(ownConditions), Err: fmt.Errorf(
			"rowguard: no row of %s was written, and its mark admits the token: it was inserted just now, or another condition, a trigger, a rule or a policy prevented the write", w.resource())})
	}
	return guard.WithCause(ctx, &pgwrite.OutcomeError{Outcome: guard.ErrRowNotFound, Err: fmt.Errorf("rowguard: %s has no row for %s", w.table.Name.Sanitize(), w.resource())})
}

// admitted returns the outcome if the row exists and its mark admits the token.
func (e explanation) admitted(ownConditions bool) error {
	switch {
	case ownConditions:
		return guard.ErrRowNotFound
	case e.elsewhere:
		return guard.ErrUnknown
	}
	return guard.ErrRetryable
}

// queryExplanation queries the state of the row and its marks after the write. The write
// cannot return that state itself: its statement sees the state at its own start.
func (w *rowOp) queryExplanation(ctx context.Context) (e explanation, err error) {
	sql, err := w.table.sql(verbExplain, nil, markedRule)
	if err != nil {
		return e, err
	}
	var rowNumber, number *int64
	var rowHolder, holder *string
	var allowed bool // not used: the server raises an error if the key's type is not allowed
	err = w.QueryRow(ctx, sql, []any{w.text, w.resource(), w.tok.Number, w.tok.Holder},
		&e.key, &rowNumber, &rowHolder, &number, &holder, &e.elsewhere, &allowed)
	if rowNumber != nil && *rowNumber > 0 {
		e.row = markOf(rowNumber, rowHolder)
	}
	e.mark = markOf(number, holder)
	return e, err
}

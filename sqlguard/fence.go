package sqlguard

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/token"
)

// ByName stands in place of the number of a Fence's first placeholder where its
// text is to name them, for [pgx.NamedArgs]: see [Fence.NamedArgs].
const ByName = 0

// Fence is what a hand-written statement on a row of a [Table] needs so that
// only the holder of the row's token can write it: not an answer to "is it
// still mine?", which is old when it arrives, but the condition, to be judged
// by the statement that writes. A Fence is a value; it is good for as many
// statements as the token is.
//
//	own, err := accounts.Fence(ctx, 42)
//	if err != nil {
//		return err
//	}
//	tag, err := pool.Exec(ctx, `
//		UPDATE accounts AS a SET balance = a.balance - $5, `+own.Set("a", 1)+`
//		 WHERE `+own.Where("a", 1)+` AND a.balance >= $5`, append(own.Args(), 50)...)
//	if err == nil && tag.RowsAffected() == 0 {
//		err = accounts.Explain(ctx, 42)
//	}
//
// # Where the condition must stand
//
// In the statement that writes the row, on the row that it writes: joined by
// AND to the rest of the WHERE of an UPDATE or DELETE whose target the alias
// is. Or in a SELECT of that same statement that locks the row, FOR UPDATE or
// FOR NO KEY UPDATE, with SKIP LOCKED or without. Only there does PostgreSQL
// look again where it had to wait for an older writer, at the row as that
// writer has left it (manual, 13.2.1 Read Committed Isolation Level). In a
// sub-select without a lock, in another query before, or on a copy of the row
// in a join, it is judged by the row as it was when the statement began, and a
// stale write gets through. Other tables that the statement writes are fenced
// as far as they take their rows from this one's RETURNING. Two fenced rows in
// one statement are not all or nothing: for that, [Guard.UpdateAll].
//
// Set belongs to every UPDATE: a write that leaves the mark where it was can be
// overwritten by an older token later. Rows are inserted by [Table.Insert] or
// [Table.Upsert] and deleted by [Table.Delete], or within [Guard.Update]: the
// marks table must know of both.
//
// Several such statements in a transaction of the caller's hold the row until
// its end, and its successor waits for as long. [Guard.Join] bounds that; it
// comes before them.
type Fence struct {
	table *Table
	tok   token.Token
	text  string // of the key
	rule  rule
}

// Fence returns the condition under which the token that ctx carries for the
// row may write it. The errors are the token package's, for a token that is
// missing, released or incomplete, and those of a Table or key that is of no
// use. Nothing is sent.
func (t *Table) Fence(ctx context.Context, key any) (Fence, error) {
	w, err := t.target(ctx, key)
	if err == nil {
		err = t.checkNames(nil)
	}
	if err != nil {
		return Fence{}, err
	}
	f := Fence{table: t, tok: w.tok, text: w.text}
	if w.DangerouslyObserve {
		f.rule = noRule
	}
	return f, nil
}

// Where returns the condition: that this is the row of the key, and that its
// mark admits the token. A row whose mark nobody has made yet (0, or NULL) is not
// written: [Table.Claim] makes it. alias is what the statement calls the table, empty
// where it calls it nothing; it is quoted, so as it is, not as it may be
// written. The condition takes four placeholders, numbered from first on. In
// observe-only mode it only says which row, and nobody is told whom it would
// have refused. That of the zero Fence is false.
func (f Fence) Where(alias string, first int) string {
	if f.table == nil {
		return "(false)"
	}
	c, p := f.table.columns(alias), placeholdersFrom(first)
	admits := c.admits(f.rule, p)
	if f.rule == noRule {
		admits = "(" + p.number + "::bigint, " + p.holder + "::pg_catalog.text) IS NOT NULL"
	}
	return "(" + c.key + " = " + p.key + " AND " + c.key + `::pg_catalog.text COLLATE "C" = ` + p.text + " AND " + admits + ")"
}

// Set returns the assignments that raise the row's mark, for the SET of an
// UPDATE, with the same arguments as [Fence.Where]. In observe-only mode they
// never lower it.
func (f Fence) Set(alias string, first int) string {
	if f.table == nil {
		return ""
	}
	c, p := f.table.columns(alias), placeholdersFrom(first)
	number, holder := p.number+"::bigint", p.holder+"::pg_catalog.text"
	if f.rule == noRule {
		admits := "CASE WHEN " + c.admits(f.rule, p) + " THEN "
		number = admits + number + " ELSE " + c.number + " END"
		holder = admits + holder + " ELSE " + c.holder + " END"
	}
	bare := f.table.columns("")
	return bare.number + " = " + number + ", " + bare.holder + " = " + holder
}

// Args returns the values of the four placeholders: the key twice, the token's
// number, and its holder.
func (f Fence) Args() []any {
	return []any{f.text, f.text, f.tok.Number, f.tok.Holder}
}

// NamedArgs returns the same for [ByName], in a new map that has room for the
// statement's own. Their names begin with "fence_"; a statement with two fences
// numbers them instead.
func (f Fence) NamedArgs() pgx.NamedArgs {
	args, p := f.Args(), placeholdersFrom(ByName)
	return pgx.NamedArgs{p.key[1:]: args[0], p.text[1:]: args[1], p.number[1:]: args[2], p.holder[1:]: args[3]}
}

// placeholders stand for what [Fence.Args] returns.
type placeholders struct{ key, text, number, holder string }

func placeholdersFrom(first int) placeholders {
	if first == ByName {
		return placeholders{"@fence_key", "@fence_text", "@fence_number", "@fence_holder"}
	}
	n := func(i int) string { return "$" + strconv.Itoa(first+i) }
	return placeholders{n(0), n(1), n(2), n(3)}
}

package rowguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgwrite"
	"github.com/fencepost/fencepost/token"
)

var (
	errNoGuard  = errors.New("rowguard: Table has no Guard")
	errNoPrefix = errors.New("rowguard: Table has no Prefix: the resource's name needs a prefix before the key")
)

// rowOp is one operation on a row, with the token that must be admitted. It is one
// allocation for most operations.
type rowOp struct {
	pgwrite.Call
	table    *Table
	text     string      // text form of the key
	tok      token.Token // zero if report-only mode continues without one
	mark     *guard.Mark // the mark that report-only mode has read
	argArray [8]any      // backing array of the arguments
}

func (t *Table) open(ctx context.Context) (*rowOp, error) {
	switch {
	case t.Guard == nil:
		return nil, errNoGuard
	case t.Prefix == "":
		return nil, errNoPrefix
	}
	config := (*pgwrite.Config)(t.Guard)
	if err := config.CheckWritable(); err != nil {
		return nil, err
	}
	call, err := pgwrite.New(ctx, config, config.DB)
	if err != nil {
		return nil, err
	}
	return &rowOp{Call: call, table: t}, nil
}

// rowOp returns the operation on the row of key, with the token that ctx carries for it.
func (t *Table) rowOp(ctx context.Context, key any) (*rowOp, error) {
	w, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	if w.text, err = keyText(key); err != nil {
		return nil, err
	}
	if w.tok, err = w.Token(ctx, w.resource()); err != nil {
		return nil, err
	}
	return w, nil
}

// write makes one write of the row of key: see [rowOp.write].
func (t *Table) write(ctx context.Context, v verb, key any, set Set, marksTable bool) error {
	w, err := t.rowOp(ctx, key)
	if err != nil {
		return err
	}
	return w.write(ctx, v, set, marksTable)
}

func (w *rowOp) resource() string { return w.table.Prefix + w.text }

// args returns the arguments of update.sql.
func (w *rowOp) args(set Set, columns []string) []any {
	var text any = w.text
	args := append(w.argArray[:0], text, text, w.tok.Number, w.tok.Holder)
	for _, column := range columns {
		args = append(args, set[column])
	}
	return args
}

// write sends one statement on the row. If the statement matched no row, write returns
// the reason. marksTable means that the marks table decides too, which is always so
// inside a transaction.
func (w *rowOp) write(ctx context.Context, v verb, set Set, marksTable bool) error {
	r := rowRule
	switch {
	case w.DangerouslyReportOnly:
		r = noRule
	case marksTable, w.InTx():
		r = markedRule
	}
	columns := slices.Sorted(maps.Keys(set))
	sql, err := w.table.sql(v, columns, r)
	if err != nil {
		return err
	}
	n, err := w.send(ctx, r, marksTable, sql, w.args(set, columns))
	switch {
	case err != nil, n > 0:
		return err
	case v == verbInsert:
		return guard.WithCause(ctx, &pgwrite.OutcomeError{Outcome: guard.ErrUnknown, Err: errNotInserted})
	}
	err = w.explain(ctx, false, r == rowRule)
	if r == rowRule && (errors.Is(err, guard.ErrClaimFirst) || errors.Is(err, guard.ErrRetryable)) {
		return w.write(ctx, v, set, true) // the row had no mark, or has got one since
	}
	return err
}

// errNotInserted is returned for an INSERT without an inserted row: a trigger may have put
// the row into another table.
var errNotInserted = errors.New("rowguard: INSERT inserted no row: a trigger or rule suppressed it")

// send sends the statement as its rule requires, and returns how many rows it has written.
// If the row's mark decides, the statement is sent alone. In report-only mode marksTable
// means that its mark is reported too.
func (w *rowOp) send(ctx context.Context, r rule, marksTable bool, sql string, args []any) (int64, error) {
	if marksTable || r == markedRule {
		w.admitting()
	}
	switch r {
	case rowRule:
		return w.Exec(ctx, sql, args...)
	case noRule:
		return w.reporting(ctx, sql, args, func(ctx context.Context, body ...pgwrite.Statement) (*pgwrite.Sent, error) {
			return w.Write(ctx, pgwrite.Batch{Body: body})
		})
	}
	s, err := w.Write(ctx, pgwrite.Batch{Body: []pgwrite.Statement{{SQL: sql, Args: args}}, Implicit: true}) // INSERT, UPDATE and DELETE cannot commit
	if err != nil {
		return 0, err
	}
	return s.Exec()
}

// admitting makes the call admit the token in the marks table, if there is a token.
func (w *rowOp) admitting() {
	if w.tok != (token.Token{}) {
		w.Tokens = []token.Token{w.tok}
	}
}

func (w *rowOp) claim(ctx context.Context) error {
	r := markedRule
	if w.DangerouslyReportOnly {
		r = noRule
	}
	raise, err := w.table.sql(verbUpdate, nil, r)
	if err != nil {
		return err
	}
	check, err := w.table.sql(verbCheck, nil, markedRule)
	if err != nil {
		return err
	}
	w.admitting()
	args := w.args(nil, nil)
	if w.DangerouslyReportOnly {
		_, err = w.reporting(ctx, raise, args, w.Claim)
		return err
	}
	// The raise matches no row if the mark is newer or the row does not exist, and a
	// trigger may change what it wrote. So a check follows. It fails unless the row has
	// exactly this mark or does not exist, and then the whole batch is rolled back.
	s, err := w.Claim(ctx, pgwrite.Statement{SQL: raise, Args: args}, pgwrite.Statement{SQL: check, Args: args})
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := s.Results.Exec(); err != nil {
			return s.Refuse(w.tok, fmt.Errorf("rowguard: claim of %s: %w", w.tok, err))
		}
	}
	return s.Finish(nil)
}

// reporting writes whatever the marks are, and then reports a mark that would have refused
// the token. It sends the statement after it has locked the row and read its mark, so that
// the mark is still the same when the statement runs. Hooks are called after the connection
// was returned: a hook may be slow. Two marks may refuse one token; one report is made.
func (w *rowOp) reporting(ctx context.Context, sql string, args []any, send func(context.Context, ...pgwrite.Statement) (*pgwrite.Sent, error)) (int64, error) {
	markSQL, err := w.table.sql(verbMark, nil, noRule)
	if err != nil {
		return 0, err
	}
	w.WouldRefuse = func(_ token.Token, mark guard.Mark) { w.mark = &mark }
	s, err := send(ctx, pgwrite.Statement{SQL: markSQL, Args: args[:2]}, pgwrite.Statement{SQL: sql, Args: args})
	if err != nil {
		return 0, err
	}
	mark, err := readMark(s.Results)
	if err != nil {
		return 0, s.Finish(err)
	}
	if w.mark == nil {
		w.mark = mark
	}
	n, err := s.Exec()
	if w.mark != nil && w.tok != (token.Token{}) {
		_ = w.Hooks.Outcome(ctx, w.mark.Admits(w.tok), true) // the token is complete, so the result is nil or a refusal
	}
	return n, err
}

// readMark returns the mark in a result of at most one row, or nil.
func readMark(br pgx.BatchResults) (*guard.Mark, error) {
	var number *int64
	var holder *string
	if err := br.QueryRow().Scan(&number, &holder); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	return markOf(number, holder), nil
}

// markOf returns nil if there is no number, which means no mark.
func markOf(number *int64, holder *string) *guard.Mark {
	if number == nil {
		return nil
	}
	mark := &guard.Mark{Number: *number}
	if holder != nil {
		mark.Holder = *holder
	}
	return mark
}

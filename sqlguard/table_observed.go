package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// observing returns what writes whatever the marks say, and then tells of the one
// that would have refused. The row is locked first, so that its mark is still the
// one that was read when it is written. asked says that the marks table's counts.
func (w *target) observing(asked bool) func(ctx context.Context, sql string, args []any) (int64, error) {
	return func(ctx context.Context, sql string, args []any) (int64, error) {
		body, err := w.marked(sql, args)
		if err != nil {
			return 0, err
		}
		p := w.packet(body...)
		if !asked {
			w.toks = nil
		}
		f, err := w.watch(ctx, p)
		if err != nil {
			return 0, err
		}
		n, err := written(f)
		w.tell(ctx)
		return n, err
	}
}

// marked is a statement behind the row's mark.
func (w *target) marked(sql string, args []any) ([]*pgx.QueuedQuery, error) {
	mark, err := w.table.sql(verbMark, nil, noRule)
	return []*pgx.QueuedQuery{{SQL: mark, Arguments: args[:2]}, {SQL: sql, Arguments: args}}, err
}

// watch flies a packet whose body is marked, up to the row's mark. Nobody is
// told before the connection is back: two marks may refuse one token, which is
// told once, and an observer may be slow.
func (w *target) watch(ctx context.Context, p packet) (*flight, error) {
	w.admit.read = func(ctx context.Context, br pgx.BatchResults, tok token.Token) (err error) {
		if w.mark, err = readMark(br); err == nil && w.mark != nil && w.mark.Number == 0 {
			w.mark = nil
			w.unjudged(ctx, tok)
		}
		return err
	}
	f, err := w.fly(ctx, p)
	if err != nil {
		return nil, err
	}
	mark, err := readMark(f.results)
	if err != nil {
		return nil, f.end(err)
	}
	if w.mark == nil {
		w.mark = mark
	}
	return f, nil
}

func (w *target) tell(ctx context.Context) {
	if w.mark != nil && w.tok != (token.Token{}) {
		_ = w.Observer.Judge(ctx, w.mark.Admits(w.tok), true) // the token is complete: nil, or a refusal
	}
}

// readMark returns a mark that is one row, or nil.
func readMark(br pgx.BatchResults) (*guard.Mark, error) {
	var number *int64
	var holder *string
	if err := br.QueryRow().Scan(&number, &holder); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	return markOf(number, holder), nil
}

// markOf returns nil where there is no number: a mark that nobody has made.
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

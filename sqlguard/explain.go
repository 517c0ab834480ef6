package sqlguard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// Explain says why a hand-written statement with a [Fence] matched no row. It
// is never nil, so that it can be returned for such a statement:
//
//   - [guard.ErrStale], [guard.ErrCollision]: the mark is another's, that of the
//     row or, where the row is gone, that in the marks table;
//   - [guard.ErrNoRow]: no mark refuses the token. Either there is no such row,
//     or it is not the fence that has kept it from being written: marks only
//     rise, so one that admits the token now did so before. The statement has
//     another condition, or a trigger or a row security policy of the table
//     has. The error's text tells the two apart;
//   - [guard.ErrClaimFirst]: nobody has made the row's mark yet, and none
//     refuses the token: [Table.Claim] makes it;
//   - another error: the table has that key in another form, or could not be
//     asked. Nothing was applied then either.
//
// It reads and locks nothing, in one packet. Where the statement was part of a
// transaction, Guard.DB should be that transaction.
func (t *Table) Explain(ctx context.Context, key any) error {
	w, err := t.target(ctx, key)
	if err != nil {
		return err
	}
	return w.explain(ctx, true, true)
}

// explanation is what table_explain.sql answers.
type explanation struct {
	key       *string
	row, mark *guard.Mark
	elsewhere bool // something may have been written in the row's place
}

// explain is told whether the statement was hand-written, with conditions of its
// own, and whether the row must have a mark of its own.
func (w *target) explain(ctx context.Context, foreign, marked bool) error {
	e, err := w.ask(ctx)
	if err != nil {
		return guard.WithLoss(ctx, fmt.Errorf("sqlguard: no row of %s was written, and why could not be asked: %w", w.resource(), err))
	}
	if e.key != nil && *e.key != w.text {
		return fmt.Errorf("sqlguard: the key %q is %q in %s: name the resource as the table writes the key", w.text, *e.key, w.table.Name.Sanitize())
	}
	for _, mark := range []*guard.Mark{e.row, e.mark} {
		if mark == nil || w.tok == (token.Token{}) {
			continue
		}
		if err := mark.Admits(w.tok); err != nil {
			if err = w.Observer.Judge(ctx, err, w.DangerouslyObserve); err != nil {
				return guard.WithLoss(ctx, err)
			}
			break // told once
		}
	}
	if e.key != nil && marked && e.row == nil && !w.DangerouslyObserve {
		return guard.WithLoss(ctx, &verdict{guard.ErrClaimFirst, fmt.Errorf("sqlguard: the row of %s has no mark yet", w.resource())})
	}
	if e.key != nil {
		return guard.WithLoss(ctx, &verdict{e.admitted(foreign), fmt.Errorf(
			"sqlguard: %s admits the token: it was inserted just now, or another condition, a trigger, a rule or a policy has kept it from being written", w.resource())})
	}
	return guard.WithLoss(ctx, &verdict{guard.ErrNoRow, fmt.Errorf("sqlguard: %s has no row for %s", w.table.Name.Sanitize(), w.resource())})
}

// admitted is the outcome where the row is there and its mark admits the token.
func (e explanation) admitted(foreign bool) error {
	switch {
	case foreign:
		return guard.ErrNoRow
	case e.elsewhere:
		return guard.ErrUnknown
	}
	return guard.ErrRetryable
}

func (w *target) resource() string { return w.table.Prefix + w.text }

// ask comes after the write and sees what is there now: a reason that is read by
// the statement itself would be that of its beginning.
func (w *target) ask(ctx context.Context) (e explanation, err error) {
	sql, err := w.table.sql(verbExplain, nil, markedRule)
	if err != nil {
		return e, err
	}
	ctx, land := steady(ctx)
	defer land()
	if _, inside := transaction(w.db); !inside {
		ctx = point.Within(ctx, &w.call)
	}
	b := &pgx.Batch{}
	b.Queue(sql, w.text, w.resource(), w.tok.Number, w.tok.Holder)
	results := w.db.SendBatch(ctx, b)
	var rowNumber, number *int64
	var rowHolder, holder *string
	err = results.QueryRow().Scan(&e.key, &rowNumber, &rowHolder, &number, &holder, &e.elsewhere)
	if closed := results.Close(); err == nil {
		err = closed
	}
	if rowNumber != nil && *rowNumber > 0 {
		e.row = markOf(rowNumber, rowHolder)
	}
	e.mark = markOf(number, holder)
	return e, err
}

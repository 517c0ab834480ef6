package sqlguard

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/guard"
)

var errNothingSet = errors.New("sqlguard: Update sets nothing: to raise the row's mark, Claim")

// Update sets columns of the row of a key, and its mark, where the mark admits
// the token that ctx carries for it. It is one statement, sent as pgx's own
// Exec sends one, in no transaction but its own, at the session's isolation. No
// such row is [guard.ErrNoRow], or a refusal where the row was deleted under a
// newer token. A set without columns is an error.
//
// Of a row whose mark nobody has made yet (0, or NULL), the marks table is asked:
// that takes two packets more, once, and none where the row was claimed.
//
// The caller's end of ctx cuts the statement off ([guard.ErrUnknown]); before
// it was sent, nothing is. The loss of the lease does not, and leaves it 30 s:
// the row decides.
func (t *Table) Update(ctx context.Context, key any, set Set) error {
	if len(set) == 0 {
		return errNothingSet
	}
	w, err := t.target(ctx, key)
	if err != nil {
		return err
	}
	return w.write(ctx, verbUpdate, set, t.Protected)
}

// write makes one statement of the row, and explains it where it matched none.
// asked says that the marks table is asked first, which inside a transaction it
// always is.
func (w *target) write(ctx context.Context, v verb, set Set, asked bool) error {
	_, inside := transaction(w.db)
	send, r := w.alone, rowRule
	switch {
	case w.DangerouslyObserve:
		send, r = w.observing(asked), noRule
	case asked, inside:
		send, r = w.behindAdmission, markedRule
	}
	sql, err := w.table.sql(v, set, r)
	if err != nil {
		return err
	}
	n, err := send(ctx, sql, w.args(set))
	switch {
	case err != nil, n > 0:
		return err
	case v == verbInsert:
		return guard.WithLoss(ctx, &verdict{guard.ErrUnknown, errTakenAway})
	}
	err = w.explain(ctx, false, r == rowRule)
	if r == rowRule && (errors.Is(err, guard.ErrClaimFirst) || errors.Is(err, guard.ErrRetryable)) {
		return w.write(ctx, v, set, true) // nobody had made the row's mark, or it has been made since
	}
	return err
}

// errTakenAway may be said of a row that a trigger has put into another table.
var errTakenAway = errors.New("sqlguard: the INSERT has inserted no row here: a trigger or rule has taken it")

package sqlguard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var _ guard.Store = (*Table)(nil)

// Claim raises the marks of tok's resource to tok, that of the row and that in
// the marks table, in a transaction of its own, one packet. Give it to
// [token.Locker.Claim]:
//
//	locks := &token.Locker{Issuer: issuer, Claim: accounts.Claim}
//
// When it returns nil no older token writes the row any more, and every older
// write can be read. It is durable, whatever the session's synchronous_commit.
// A refusal by either mark raises neither. A row that is not there, or that a
// policy hides from the role, is nothing to refuse for: whoever inserts it later
// is asked by the marks table. Where a trigger, a rule or a policy keeps the row
// from carrying the mark, and where the key is of a type whose text depends on
// the session, it is an error and raises neither. So is a resource that does not
// begin with the Table's Prefix.
//
// It waits for older writers, errors, and may be repeated, as [Guard.Admit]
// does and may. For a transaction that has locked the row and was never
// admitted (see [Fence]) it waits until ctx ends.
func (t *Table) Claim(ctx context.Context, tok token.Token) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := tok.Check(); err != nil {
		return t.Guard.Observer.Judge(ctx, err, t.Guard.DangerouslyObserve)
	}
	text, ok := strings.CutPrefix(tok.Resource, t.Prefix)
	if !ok {
		return fmt.Errorf("sqlguard: claim of %s: the names of this table's rows begin with %q", tok, t.Prefix)
	}
	w, err := t.aim(ctx, text, tok)
	if err != nil {
		return err
	}
	if _, inside := transaction(w.db); inside {
		return errNotDurable
	}
	return w.claimRow(ctx)
}

// Admit is [Table.Claim] by the name that a [guard.Store] has for it.
func (t *Table) Admit(ctx context.Context, tok token.Token) error { return t.Claim(ctx, tok) }

func (w *target) claimRow(ctx context.Context) error {
	r := markedRule
	if w.DangerouslyObserve {
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
	args, p := w.args(nil), packet{begin: &raising, commit: commitSQL}
	w.by(w.admitting().admitDurable, w.bound())
	if w.DangerouslyObserve {
		return w.claimObserved(ctx, p, raise, args)
	}
	// The raise matches no row where a newer mark is, and where no row is; and
	// what it wrote may not be what is there. The check behind it fails unless the
	// row has this very mark, or is not there, and takes the whole packet back.
	p.body = []*pgx.QueuedQuery{{SQL: raise, Arguments: args}, {SQL: check, Arguments: args}}
	f, err := w.fly(ctx, p)
	if err != nil {
		return err
	}
	for range p.body {
		if _, err := f.results.Exec(); err != nil {
			return w.unclaimed(f, err)
		}
	}
	return f.end(nil)
}

// unclaimed is what becomes of a claim that the row does not admit.
func (w *target) unclaimed(f *flight, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && stale(w.tok, pg) != nil {
		return w.refused(f, w.tok, err)
	}
	return f.end(fmt.Errorf("sqlguard: claim of %s: %w", w.tok, err))
}

func (w *target) claimObserved(ctx context.Context, p packet, raise string, args []any) (err error) {
	if p.body, err = w.marked(raise, args); err != nil {
		return err
	}
	f, err := w.watch(ctx, p)
	if err != nil {
		return err
	}
	_, err = f.results.Exec()
	err = f.end(err)
	w.tell(ctx)
	return err
}

package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// These are fences written by hand. The histories must expose each of them, by one of the
// rules that it breaks.
func TestStressHistoriesCatchWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fence naive
		rules []string
	}{
		"none":                         {naive{}, []string{"order"}},
		"SELECT, then write":           {naive{judge: other, outside: true}, []string{"order", "versions"}},        // hazard G1
		"no row lock":                  {naive{judge: other}, []string{"order", "versions"}},                       // hazard G1
		"<= without the holder":        {naive{judge: below, lock: true}, []string{"holder"}},                      // hazard G4
		"equality in place of order":   {naive{judge: differs, lock: true}, []string{"spurious-refusal", "order"}}, // hazard G5
		"a mark that is forgotten":     {naive{judge: other, lock: true, forgets: "true"}, []string{"order", "mark"}},
		"marks pruned without a floor": {naive{judge: other, lock: true, forgets: "number < $1"}, []string{"order", "mark"}}, // hazard G21
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &c.fence
			n.versioned = newVersioned(t)
			s := newSixteen(t, n.way())
			for range 50 { // mostly the first thousand suffice
				for _, v := range s.run(1000) {
					if slices.Contains(c.rules, v.Rule.ID) {
						t.Log(v.Rule, v.Why)
						return
					}
				}
			}
			t.Fatalf("not caught: FENCEPOST_TEST_SEED=%d", s.seed)
		})
	}
}

// naive is a fence by hand, in the schema's table of marks.
type naive struct {
	*versioned
	judge   func(mark guard.Mark, tok token.Token) (refused bool)
	outside bool   // the mark is read in a separate statement, before the transaction
	lock    bool   // the mark's row is locked while it is compared
	forgets string // which marks are deleted now and then
}

func below(mark guard.Mark, tok token.Token) bool { return tok.Number < mark.Number }
func other(mark guard.Mark, tok token.Token) bool { return mark.Admits(tok) != nil }

// differs is the fence in a lock service's manual: only the current holder may write,
// which is only known after it has claimed.
func differs(mark guard.Mark, tok token.Token) bool {
	return mark.Holder != "" && mark.Holder != tok.Holder
}

func (n *naive) way() way {
	w := n.versioned.way(func(ctx context.Context, row string, alone bool) (seen, made int64, err error) {
		seen, made, err = n.add(ctx, row, alone)
		return seen, made, victim(err)
	})
	w.busy = n.forgets != ""
	w.claim, w.mark = n.raise, nil
	if n.forgets != "" {
		w.forget = func(ctx context.Context, least int64) error {
			_, err := n.pool.Exec(ctx, "DELETE FROM "+n.marks()+" WHERE "+n.forgets+" AND $1::bigint IS NOT NULL", least)
			if err = victim(err); errors.Is(err, guard.ErrRetryable) {
				return nil // it is retried later
			}
			return err
		}
	}
	return w
}

// victim returns what a guard would return for a deadlock's victim. The statement that
// forgets deletes many rows, in any order.
func victim(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "40P01" {
		return fmt.Errorf("%w: %w", guard.ErrRetryable, err)
	}
	return err
}

func (n *naive) add(ctx context.Context, row string, alone bool) (seen, made int64, err error) {
	tok, err := token.FromContext(ctx, row)
	if err != nil {
		return 0, 0, err
	}
	if n.judge == nil || n.outside {
		if err := n.check(ctx, n.pool, tok); err != nil {
			return 0, 0, err
		}
		return n.makes(ctx, n.pool, n.pool, row, alone)
	}
	err = pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		if err := n.check(ctx, tx, tok); err != nil {
			return err
		}
		seen, made, err = n.makes(ctx, tx, tx, row, alone)
		return err
	})
	return seen, made, err
}

// check compares with the mark, and then raises it.
func (n *naive) check(ctx context.Context, q querier, tok token.Token) error {
	if n.judge == nil {
		return nil
	}
	text := "SELECT number, holder FROM " + n.marks() + " WHERE resource = $1"
	if n.lock {
		text += " FOR UPDATE"
	}
	var mark guard.Mark
	err := q.QueryRow(ctx, text, tok.Resource).Scan(&mark.Number, &mark.Holder)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if n.judge(mark, tok) {
		return &guard.StaleError{Token: tok, Mark: mark}
	}
	return n.put(ctx, q, tok)
}

func (n *naive) raise(ctx context.Context, tok token.Token) error {
	return victim(n.put(ctx, n.pool, tok))
}

func (n *naive) put(ctx context.Context, q querier, tok token.Token) error {
	_, err := q.Exec(ctx, "INSERT INTO "+n.marks()+" AS m VALUES ($1, $2, $3) ON CONFLICT (resource) "+
		"DO UPDATE SET number = excluded.number, holder = excluded.holder WHERE m.number < excluded.number",
		tok.Resource, tok.Number, tok.Holder)
	return err
}

func (n *naive) marks() string { return pgx.Identifier{n.schema, "marks"}.Sanitize() }

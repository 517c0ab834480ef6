package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// mysql keeps the writers of one token together by a shared lock on the row of
// the mark, and has whoever raises the mark lock it alone. InnoDB lets nobody
// past who waits, so a successor is not starved. No transaction takes the one
// lock and then the other: two that did so would wait for each other.
type mysql struct {
	usual
	bound time.Duration // Guard.Idle, 0 for none
	// marks are those that a claim has seen before its transaction.
	marks map[string]guard.Mark
}

func newMySQL(g *Guard) *mysql {
	if g.DangerouslyObserve { // to end sessions would be no mere observing
		return &mysql{}
	}
	return &mysql{bound: time.Duration(milliseconds(g.Idle)) * time.Millisecond}
}

// enter bounds the idle time, and looks for a claim at the marks. To look
// outside of a transaction takes no lock and no snapshot: a zombie that claims
// again and again is in nobody's way, nor a holder that has claimed before.
func (d *mysql) enter(ctx context.Context, conn *sql.Conn, w way, toks []token.Token) error {
	if d.bound > 0 {
		if _, err := conn.ExecContext(ctx, within(d.bound)); err != nil {
			return fmt.Errorf("stdsql: bound the idle time: %w", err)
		}
	}
	if w != claiming {
		return nil
	}
	d.marks = make(map[string]guard.Mark, len(toks))
	for _, tok := range toks {
		mark, err := d.read(ctx, conn, mysqlLook, tok)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return d.failed(err, tok)
		}
		d.marks[tok.Resource] = mark
	}
	return nil
}

func (d *mysql) leave(conn *sql.Conn) error {
	if d.bound == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	_, err := conn.ExecContext(ctx, statement(mysqlLeave))
	return err
}

func (d *mysql) admit(ctx context.Context, tx Tx, tok token.Token, w way) error {
	floor := guard.Mark{}
	if mark := d.marks[tok.Resource]; w == claiming && mark.Number < tok.Number {
		var err error
		if floor, err = d.raise(ctx, tx, tok); err != nil {
			return d.failed(err, tok)
		}
	}
	mark, err := d.read(ctx, tx, mysqlShare, tok)
	switch {
	case errors.Is(err, sql.ErrNoRows) && floor.Number > tok.Number:
		return &guard.StaleError{Token: tok, Mark: floor}
	case errors.Is(err, sql.ErrNoRows) && w == claiming:
		// It was there when we looked, and was pruned since.
		return fmt.Errorf("%w: stdsql: admit %s: the mark has just gone", guard.ErrRetryable, tok)
	case errors.Is(err, sql.ErrNoRows), err == nil && mark.Number < tok.Number:
		return &blocked{tok: tok, outcome: guard.ErrClaimFirst, err: errUnclaimed, harmless: true}
	case err != nil:
		return d.failed(err, tok)
	case mark.Admits(tok) != nil:
		return mark.Admits(tok)
	case w == joining:
		return d.young(ctx, tx, tok)
	}
	return nil
}

// raise returns the floor by which a token is judged whose resource has no mark
// behind it.
func (d *mysql) raise(ctx context.Context, tx Tx, tok token.Token) (floor guard.Mark, err error) {
	if err := tx.QueryRowContext(ctx, statement(mysqlFloor)).Scan(&floor.Number); err != nil {
		return floor, err
	}
	raise := mysqlRaise
	if tok.Number < floor.Number {
		raise = mysqlRaiseBelow
	}
	_, err = tx.ExecContext(ctx, of(raise, tok))
	return floor, err
}

// young finds out whether somebody else's transaction took its snapshot before
// the token was claimed. Then it does not see the last older writes:
//
//  1. it reads, under REPEATABLE READ, which is the default
//  2. an older writer commits; the token is claimed
//  3. the transaction joins, reads what it read before, and writes
func (d *mysql) young(ctx context.Context, tx Tx, tok token.Token) error {
	mark, err := d.read(ctx, tx, mysqlLook, tok)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && mark != guard.Mark{Number: tok.Number, Holder: tok.Holder}:
		return fmt.Errorf("%w: stdsql: admit %s: the transaction has read before the token was claimed", guard.ErrRetryable, tok)
	case err != nil:
		return d.failed(err, tok)
	}
	return nil
}

// rower is what a mark is read from.
type rower interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (*mysql) read(ctx context.Context, from rower, file string, tok token.Token) (mark guard.Mark, err error) {
	err = from.QueryRowContext(ctx, of(file, tok)).Scan(&mark.Number, &mark.Holder)
	return mark, err
}

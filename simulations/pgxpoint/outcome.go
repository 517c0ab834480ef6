package pgxpoint

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/internal/sqltext"
)

// answer is called with each command tag, before the error that comes with it
// is looked at: a tag is said of a statement that has run, and what is undone
// after all has never been written.
func (t *transaction) answer(tag pgconn.CommandTag) {
	if t.last = tag.String(); t.last == "COMMIT" {
		t.committed = true
	}
	t.wrote = t.wrote || sqltext.Wrote(t.last)
}

// settle is called with the last answer to what was sent, or with the error in
// its place.
func (t *transaction) settle(conn *pgx.Conn, err error) {
	pg, closed := conn.PgConn(), conn.IsClosed()
	if closed || pg.TxStatus() == idle && !pg.IsBusy() {
		t.end(conn, t.outcome(closed, err))
	}
}

func (t *transaction) outcome(closed bool, err error) point.Step {
	var refused *pgconn.PgError
	switch {
	case t.committed:
		return t.written()
	case t.last == "ROLLBACK":
		return point.Undone
	case closed:
		return t.broken(err)
	case errors.As(err, &refused), err != nil && t.last == "":
		return point.Undone // by the server, or because nothing was sent
	}
	return t.written() // an error then is the reader's own
}

// broken is the outcome where nobody can be asked any more. In the simple
// protocol pgx 5.12 says "conn closed", which calls itself safe to retry, of a
// connection that broke while the answer was awaited.
func (t *transaction) broken(err error) point.Step {
	unsent := pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
	if !t.sent.commits || t.sent.dead || unsent {
		return point.Undone
	}
	return t.unseen()
}

// unseen is the outcome of a COMMIT, or of what needs none, without an answer.
func (t *transaction) unseen() point.Step {
	if t.wrote || t.sent.writes {
		return point.Unknown
	}
	return point.Undone
}

func (t *transaction) written() point.Step {
	if t.wrote {
		return point.Applied
	}
	return point.Undone
}

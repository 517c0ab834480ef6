package sqlguard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/token"
)

// behindAdmission sends the statement in one packet with the token's admission,
// as Guard.On does.
func (w *target) behindAdmission(ctx context.Context, sql string, args []any) (int64, error) {
	f, err := w.fly(ctx, w.packet(&pgx.QueuedQuery{SQL: sql, Arguments: args}))
	if err != nil {
		return 0, err
	}
	return written(f)
}

// admitting has the call admit the token, unless there is none.
func (w *target) admitting() *statements {
	w.stmts = statementsOf(w.Schema)
	if w.tok != (token.Token{}) {
		w.toks = []token.Token{w.tok}
	}
	return w.stmts
}

// packet is that of a body behind the admission. In the caller's transaction it
// also bounds how long that may be idle.
func (w *target) packet(body ...*pgx.QueuedQuery) packet {
	stmts := w.admitting()
	if _, inside := transaction(w.db); inside {
		w.by(stmts.admitBounded, w.bound())
		return packet{body: body}
	}
	w.by(stmts.admit, claimed)
	// A change of rows cannot commit by itself: see bare.go.
	p := packet{begin: &w.Tx, body: body, commit: commitSQL, bare: len(body) == 1 && w.Tx == (pgx.TxOptions{})}
	if w.Tx.CommitQuery != "" {
		p.commit = w.Tx.CommitQuery
	}
	return p
}

// written returns how many rows the last statement of a packet has written.
func written(f *flight) (int64, error) {
	tag, err := f.results.Exec()
	f.wrote = wrote(f.caller, tag)
	if err = f.end(err); err != nil {
		return 0, err
	}
	return tag.RowsAffected(), nil
}

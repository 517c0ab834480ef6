package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/rounds"
	"github.com/fencepost/fencepost/token"
)

// A Way is what a writer does between its read and its write.
type Way string

// The four ways. Only Guarded refuses stale writes.
const (
	// Unguarded writes without a check.
	Unguarded Way = "unguarded"
	// Recheck renews the lease, then writes.
	Recheck Way = "recheck"
	// CheckThenWrite reads the mark beside the row and compares its token with it, then
	// writes the row and the mark.
	CheckThenWrite Way = "check-then-write"
	// Guarded claims before it reads. The transaction that writes compares its token
	// with the mark.
	Guarded Way = "guarded"
)

// ways are in the order of a run.
var ways = []Way{Unguarded, Recheck, CheckThenWrite, Guarded}

// resource returns the account of a way.
func resource(way Way) string { return "account/" + string(way) }

// beforeWrite is the step at which A is stopped. No transaction is open there: a process that
// is stopped inside one would block all other writers of an SQLite file.
const beforeWrite = string(failpoint.Begin)

// writer is A or B, in its own process.
type writer struct {
	setup
	name   string
	way    Way
	issuer token.Issuer
	store  *store
}

// open is [rounds.Open] for a way.
func open(ctx context.Context, name, way, conf string) (s rounds.Subject, end func() error, err error) {
	w := &writer{name: name, way: Way(way)}
	if err := json.Unmarshal([]byte(conf), &w.setup); err != nil {
		return s, nil, err
	}
	locks, err := w.openLocks(ctx)
	if err != nil {
		return s, nil, err
	}
	if w.store, err = openStore(ctx, w.setup); err != nil {
		locks.Shutdown()
		return s, nil, err
	}
	w.issuer = locks.Issuer
	s = rounds.Subject{Issuer: w.issuer, Resource: resource(w.way), TTL: w.TTL, Do: w.do}
	if w.way == Guarded {
		s.Claim = w.store.fence.Admit
	}
	return s, func() error { locks.Shutdown(); return w.store.db.Close() }, nil
}

// do is the work under the lock: it reads, computes, checks, and writes. A is stopped just
// before the write.
func (w *writer) do(ctx context.Context) error {
	tok, err := token.FromContext(ctx, resource(w.way))
	if err != nil {
		return err
	}
	began := time.Now()
	row, err := w.store.read(ctx, tok.Resource)
	if err != nil {
		return err
	}
	rounds.Record(ctx, began, history.Op{Kind: history.Read, Note: fmt.Sprintf("reads %d", row.balance)})
	row = row.plus(w.name, guard.Mark{Number: tok.Number, Holder: tok.Holder})
	if err := w.check(ctx, tok); err != nil {
		return err
	}
	failpoint.At(ctx, failpoint.Begin, rounds.Note(fmt.Sprintf("writes %d", row.balance)))
	return w.store.write(failpoint.Untraced(ctx), tok.Resource, row, w.way == Guarded)
}

// check is the check of [Recheck] and [CheckThenWrite] before their write.
func (w *writer) check(ctx context.Context, tok token.Token) error {
	began, note := time.Now(), precheck[w.way]+": yes"
	switch w.way {
	case Recheck:
		// A renewal is the server's strongest answer: the lock is held for a whole ttl from now.
		if _, err := w.issuer.Renew(ctx, tok, w.TTL); errors.Is(err, token.ErrLost) {
			return fmt.Errorf("%w: %w", guard.ErrRetryable, err) // nothing was written
		} else if err != nil {
			return err
		}
		rounds.Record(ctx, began, history.Op{Kind: history.Renew, Note: note, Until: w.TTL})
	case CheckThenWrite:
		row, err := w.store.read(ctx, tok.Resource)
		if err != nil {
			return err
		}
		if err := row.mark.Admits(tok); err != nil {
			return err
		}
		rounds.Record(ctx, began, history.Op{Kind: history.Mark, Note: note, Number: row.mark.Number, Holder: row.mark.Holder})
	}
	return nil
}

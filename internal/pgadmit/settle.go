package pgadmit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/writectx"
)

// The admission of an Update returns the name of its transaction. If the reply to the
// COMMIT is lost, the guard asks the server on another connection what became of the
// transaction. A name is valid in one incarnation of the server only: see 00008_fate.sql
// in package migrations.

// TxName is a transaction id, a process, and the server's incarnation, or "none" in its
// place. It is "" if the transaction was not named.
type TxName string

// hasIncarnation reports whether the transaction's fate can be known.
func (n TxName) hasIncarnation() bool { return !strings.HasSuffix(string(n), " none") }

// Fate is a result of transaction_fate. It is "" if the fate is not known.
type Fate string

// The fates of a transaction.
const (
	Committed  Fate = "committed"
	Aborted    Fate = "aborted"
	InProgress Fate = "in progress"
)

// Session is a connection on which a guard asks for a fate.
type Session interface {
	// Fate calls transaction_fate.
	Fate(ctx context.Context, name TxName) (Fate, error)
	// End calls end_transaction.
	End(ctx context.Context, name TxName) error
	Close()
}

var (
	errNoIncarnation = errors.New("the server had no incarnation when the transaction began")
	errFateUnknown   = errors.New("the server does not have the transaction's fate: it has restarted after a crash, is another one, or is a standby")
)

// settlePause is the pause between two questions while a transaction is in progress, and
// between two attempts to reach the server.
const settlePause = 20 * time.Millisecond

// Settle returns Committed or Aborted, or an error if the fate of the transaction is not
// known. It is for a transaction whose COMMIT may have been applied. It opens sessions
// until one gives an answer, for [writectx.SettleTimeout] at most. If the caller's context
// has ended, it opens one.
func Settle(caller context.Context, name TxName, open func(ctx context.Context) (Session, error)) (Fate, error) {
	if !name.hasIncarnation() {
		return "", errNoIncarnation
	}
	ctx, cancel := writectx.ForSettlement(caller)
	defer cancel()
	for {
		fate, err := ask(ctx, name, open)
		switch {
		case fate != "":
			return fate, nil
		case err == nil:
			return "", errFateUnknown
		case !temporary(err) || writectx.CheckCommit(caller) != nil:
			return "", err
		case !pause(ctx):
			return "", errors.Join(context.Cause(ctx), err)
		}
	}
}

// ask returns Committed, Aborted, or "" if the fate is not known. While the transaction
// is in progress, ask ends its session: the client is gone, and a COMMIT that is still on
// its way must not arrive after the answer.
func ask(ctx context.Context, name TxName, open func(ctx context.Context) (Session, error)) (Fate, error) {
	s, err := open(ctx)
	if err != nil {
		return "", err
	}
	defer s.Close()
	for {
		fate, err := s.Fate(ctx, name)
		if err != nil {
			return "", err
		}
		if fate != InProgress {
			return fate, nil
		}
		// If the role may not end the session, the server ends it when it is idle for too
		// long.
		if err := s.End(ctx, name); err != nil && sqlState(err) == "" {
			return "", err
		}
		if !pause(ctx) {
			return "", context.Cause(ctx)
		}
	}
}

func pause(ctx context.Context) bool {
	timer := time.NewTimer(settlePause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// temporary reports whether a question that failed with err may succeed later: the server
// was not reached, is starting or shutting down, or has no free connection (classes 08, 57
// and 53: manual, appendix A).
func temporary(err error) bool {
	switch state := sqlState(err); state[:min(2, len(state))] {
	case "", "08", "53", "57":
		return true
	}
	return false
}

func sqlState(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}

package pgadmit

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/writectx"
)

// The admission of an Update returns the name of its transaction. If the reply to the
// COMMIT is lost, the guard asks the server on another connection what became of the
// transaction. A name is valid in one incarnation of the server only: see 00007_fate.sql
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
	// Confirm commits ConfirmSQL. It returns nil if that waited for everything that was
	// visible before.
	Confirm(ctx context.Context) error
	// End calls end_transaction.
	End(ctx context.Context, name TxName) error
	// Close is called once, even if ctx has ended.
	Close(ctx context.Context)
}

// ErrWaitCancelled is the error of Confirm if an operator has cancelled its wait.
var ErrWaitCancelled = errors.New("the wait for a synchronous standby was cancelled")

// The statements of a Session, with the header comments of their files. Their argument, if
// they have one, is a TxName. Every guard that concludes from what is visible that a write
// was applied commits ConfirmSQL first:
//
//  1. A's COMMIT waits for a synchronous standby, which is away.
//  2. A's session is ended. PostgreSQL makes the transaction visible, without the standby.
//  3. The guard sees the write, and reports it as applied.
//  4. The standby is promoted, and lacks it.
var (
	//go:embed confirm.sql
	ConfirmSQL string
	//go:embed fate.sql
	FateSQL string
	//go:embed end_transaction.sql
	EndTransactionSQL string
)

var (
	errNoIncarnation = errors.New("the server had no incarnation when the transaction began")
	errFateUnknown   = errors.New("the server does not have the transaction's fate: it has restarted after a crash, is another one, or is a standby")
	errInProgress    = errors.New("the transaction is still in progress")
	errNotConfirmed  = errors.New("the transaction is committed on the primary, and it is not known whether the standbys have it")
)

const (
	// firstPause is the pause between two questions while a transaction is in progress,
	// and between two attempts to reach the server. It doubles up to longestPause.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// Settle returns Committed or Aborted, or an error if the fate of the transaction is not
// known. Committed means on the disk, and on the standbys if the server has synchronous
// ones. It is for a transaction whose COMMIT may have been applied. It opens sessions
// until one gives an answer, for [writectx.Timeout] at most. If the caller's context has
// ended, it opens one.
func Settle(caller context.Context, name TxName, open func(ctx context.Context) (Session, error)) (Fate, error) {
	if !name.hasIncarnation() {
		return "", errNoIncarnation
	}
	ctx, cancel := writectx.ForCommit(caller)
	defer cancel()
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		fate, err := ask(ctx, name, open)
		switch {
		case err == nil && (fate == Committed || fate == Aborted):
			return fate, nil
		case err == nil:
			return "", errFateUnknown
		case !temporary(err) || writectx.CheckCommit(caller) != nil || !pause(ctx, wait):
			return "", err
		}
	}
}

// ask returns Committed, Aborted, or another fate if it is not known. While the
// transaction is in progress, ask ends its session: the client is gone, and a COMMIT that
// is still on its way must not arrive after the answer.
func ask(ctx context.Context, name TxName, open func(ctx context.Context) (Session, error)) (Fate, error) {
	s, err := open(ctx)
	if err != nil {
		return "", err
	}
	defer s.Close(ctx)
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		fate, err := s.Fate(ctx, name)
		if err == nil && fate == Committed {
			if err = confirm(ctx, s); err != nil {
				err = fmt.Errorf("%w: %w", errNotConfirmed, err)
			}
		}
		if err != nil || fate != InProgress {
			return fate, err
		}
		// If the role may not end the session, the server ends it when it is idle for too
		// long.
		if err := s.End(ctx, name); err != nil && SQLState(err) == "" {
			return "", err
		}
		if !pause(ctx, wait) {
			return "", errInProgress
		}
	}
}

// confirm calls Confirm. If ctx has ended, a driver may have cancelled the wait, and that
// looks like success.
func confirm(ctx context.Context, s Session) error {
	if err := s.Confirm(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// pause waits for d, or until ctx ends. It reports whether d has passed.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
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
	switch state := SQLState(err); state[:min(2, len(state))] {
	case "", "08", "53", "57":
		return true
	}
	return false
}

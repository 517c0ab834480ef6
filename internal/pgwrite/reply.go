package pgwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/token"
)

// Sent is a request that was sent and whose replies are being read.
type Sent struct {
	// Results are the replies from the body's on.
	Results pgx.BatchResults

	call     *Call
	request  *request
	batch    *pgx.Batch
	admits   string // text of the admission
	commits  bool
	implicit bool   // without BEGIN and COMMIT
	tx       pgx.Tx // nil in the caller's transaction and in an implicit one
	session         // zero if no connection was available
	sentAt   time.Time
	begun    bool // the server has replied
	ending   bool // only the reply to the COMMIT is missing
	wrote    bool // the body has written
	stop     context.CancelFunc
}

func (s *Sent) readAdmissions(begins bool) (*obstacle, error) {
	if begins {
		if s.tx = s.Results.Tx(); s.tx == nil {
			return nil, s.fail(errNoBegin)
		}
		s.conn = s.tx.Conn() // also for a DB of another kind
		if _, err := s.Results.Exec(); err != nil {
			return nil, s.fail(s.wrap(err))
		}
		s.begun = true
	}
	for i, tok := range s.call.Tokens {
		if err := s.readAdmission(tok, i == len(s.call.Tokens)-1); err != nil {
			return s.notAdmitted(tok, err)
		}
		s.begun = true
	}
	return nil, nil //nolint:nilnil // admitted
}

// readAdmission reads the reply to the admission of tok, with the transaction's name in the
// last. Its error is the server's or the connection's.
func (s *Sent) readAdmission(tok token.Token, last bool) error {
	switch {
	case s.request.minted != nil:
		return s.Results.QueryRow().Scan(s.request.minted)
	case s.call.DangerouslyReportOnly && !s.request.uncompared:
		return s.readReport(tok)
	case s.request.tx == openTx && last:
		return s.Results.QueryRow().Scan(nil, &s.call.name, nil)
	}
	_, err := s.Results.Exec()
	return err
}

// readReport reads the reply to report_only.sql: NULL for admitted, the mark that would
// have refused, or the number 0 and the reason why the token was not compared.
func (s *Sent) readReport(tok token.Token) error {
	c := s.call
	var number *int64
	var holder *string
	if err := s.Results.QueryRow().Scan(&number, &holder); err != nil || number == nil {
		return err
	}
	mark := guard.Mark{Number: *number, Holder: *holder}
	switch {
	case mark == guard.Mark{Holder: "standby"}:
		c.reportUncompared(s.call.caller, tok, "the admission was sent to a standby")
	case mark == guard.Mark{}:
		c.reportUncompared(s.call.caller, tok, olderWriters)
	case c.WouldRefuse != nil:
		c.WouldRefuse(tok, mark)
	default:
		return s.refused(&guard.StaleError{Token: tok, Mark: mark}, true)
	}
	return nil
}

const olderWriters = "older writers have not finished"

func (c *Call) reportUncompared(ctx context.Context, tok token.Token, reason string) {
	c.report(ctx, fmt.Errorf("sqlguard: report-only, %s was not compared with the mark: %s", tok, reason))
}

// report reports an error of report-only mode that is no refusal of a token.
func (c *Call) report(ctx context.Context, err error) {
	if c.Hooks.Reported != nil {
		c.Hooks.Reported(ctx, err)
		return
	}
	slog.WarnContext(ctx, err.Error())
}

// notAdmitted closes a request whose admission of tok failed with err.
func (s *Sent) notAdmitted(tok token.Token, err error) (*obstacle, error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || errors.As(err, new(pgx.ErrPreprocessingBatch)) {
		return nil, s.fail(s.wrap(err))
	}
	switch pg.Code {
	case pgadmit.Stale, pgadmit.Collision:
		return nil, s.refuse(tok, err)
	case pgadmit.ClaimFirst, pgadmit.LockTimeout:
		waited := time.Since(s.sentAt)
		s.Discard(err)
		return &obstacle{tok: tok, byWriters: pg.Code == pgadmit.LockTimeout, waited: waited, err: err}, nil
	}
	if s.commits && len(s.request.Body) > 0 && mayBeStandby(pg) {
		return nil, s.fail(&OutcomeError{guard.ErrUnknown, s.wrap(err)})
	}
	return nil, s.fail(s.wrap(err))
}

// Refuse closes a request to which the server replied with err, a refusal of tok. If err
// is not a refusal, it returns [Sent.Finish] of err.
func (s *Sent) Refuse(tok token.Token, err error) error {
	return guard.WithCause(s.call.caller, s.refuse(tok, err))
}

func (s *Sent) refuse(tok token.Token, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return s.finish(err)
	}
	refusal := pgadmit.Refusal(tok, pg.Code, pg.Detail)
	if refusal == nil {
		return s.finish(err)
	}
	s.Discard(err) // before the hook, which may be slow
	return s.refused(&OutcomeError{refusal, err}, false)
}

// refused calls the hook for a refusal. It returns nil if reportOnly is true.
func (s *Sent) refused(err error, reportOnly bool) error {
	if s.call.quiet && !reportOnly {
		return err
	}
	return s.call.Hooks.Outcome(s.call.caller, err, reportOnly)
}

// wrap adds to err that the admission failed and not the caller's statement, and what may
// be missing.
func (s *Sent) wrap(err error) error {
	schema := cmp.Or(s.call.Schema, DefaultSchema)
	var early pgx.ErrPreprocessingBatch
	switch {
	case errors.As(err, &early) && early.SQL() != s.admits:
		return err
	case SQLState(err) == pgadmit.NoSchema, SQLState(err) == pgadmit.NoFunction:
		return fmt.Errorf("sqlguard: schema %q lacks tables or functions: run migrations.Up: %w", schema, err)
	case SQLState(err) == pgadmit.ReadOnly, SQLState(err) == pgadmit.Unsupported:
		return fmt.Errorf("sqlguard: the admission was sent to a standby, or is in a READ ONLY transaction: connect to the primary; "+
			"a pooler that splits reads from writes must send the functions of schema %q there "+
			"(pgpool: primary_routing_query_pattern_list, or disable_load_balance_on_write = 'always'): %w", schema, err)
	}
	return fmt.Errorf("sqlguard: admission: %w", err)
}

// Exec reads the reply to the last statement of the body and calls [Sent.Finish]. It
// returns how many rows the statement has written.
func (s *Sent) Exec() (int64, error) {
	tag, err := s.Results.Exec()
	s.Wrote(tag)
	if err = s.Finish(err); err != nil {
		return 0, err
	}
	return tag.RowsAffected(), nil
}

// Query reads the reply to the body, up to its rows.
func (s *Sent) Query() (pgx.Rows, error) {
	rows, err := s.Results.Query()
	if err != nil {
		return nil, s.Finish(err)
	}
	s.begun = true
	return rows, nil
}

// Finish reads the reply to the COMMIT, after the replies to the body have been read, and
// gives the connection back. Only the reply to the COMMIT proves a write: a deferred
// constraint, for example, fails there. err is the body's error, or nil.
func (s *Sent) Finish(err error) error { return guard.WithCause(s.call.caller, s.finish(err)) }

func (s *Sent) finish(err error) error {
	switch {
	case err != nil:
	case s.implicit:
		err = s.awaitReady()
	default:
		err = s.readCommit()
	}
	if err == nil && s.wrote {
		err = s.call.dropReply(s.conn)
	}
	if err != nil {
		return s.fail(err)
	}
	s.release()
	if s.wrote {
		s.call.at(stepApplied)
	} else {
		s.call.at(stepUndone)
	}
	return nil
}

func (s *Sent) readCommit() error {
	var tag pgconn.CommandTag
	if s.commits {
		var err error
		if tag, err = s.Results.Exec(); err != nil {
			return err
		}
	}
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	// An error of the connection after the reply to the COMMIT has no effect on the outcome.
	if err := s.Results.Close(); err != nil && tag.String() != "COMMIT" {
		return err
	}
	return nil
}

// awaitReady waits until the server is ready and in no transaction. Then the implicit
// transaction is committed.
func (s *Sent) awaitReady() error {
	s.ending = true
	s.batch.QueuedQueries = nil // an error at commit is no reason to prepare the statements again
	if err := s.Results.Close(); err != nil {
		return err
	}
	if s.conn.PgConn().TxStatus() != 'I' {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// ErrPanicked is the error of a request during which a callback or hook panicked.
var ErrPanicked = errors.New("sqlguard: a callback or hook panicked")

// CommitFollows reports whether a COMMIT was sent after the body.
func (s *Sent) CommitFollows() bool { return s.commits }

// fail rolls back, gives the connection back, and returns err with its outcome.
func (s *Sent) fail(err error) error {
	unknown := s.Discard(err)
	if unknown && !hasOutcome(err) {
		err = &OutcomeError{guard.ErrUnknown, err}
	}
	return NothingApplied(err)
}

// Discard rolls back and gives the connection back. It reports whether err leaves the
// outcome unknown.
func (s *Sent) Discard(err error) (unknown bool) {
	if harmless(SQLState(err)) {
		// For other errors pgx prepares every statement of the batch again, in two more
		// round trips. A stale writer that retries would cost the server that much each
		// time.
		s.batch.QueuedQueries = nil
	}
	if s.Results != nil {
		_ = s.Results.Close() // a consequence of err
	}
	if s.conn != nil && errors.Is(err, ErrPanicked) && s.conn.PgConn().IsBusy() {
		// pgx was building the batch and marks the connection busy. The pool closes such
		// a connection, but would send a Terminate message first.
		_ = s.conn.PgConn().Conn().Close()
	}
	unknown = s.unknown(err)
	s.release()
	if unknown {
		s.call.at(stepUnknown)
	} else {
		s.call.at(stepUndone)
	}
	return unknown
}

func (s *Sent) unknown(err error) bool {
	if !s.commits || s.conn == nil || errors.As(err, new(pgx.ErrPreprocessingBatch)) {
		return false
	}
	if !ambiguousCommit(err) && !(s.ending && interrupted(err)) {
		return false
	}
	// Before any reply, an error on an open connection is pgx's own: for example an
	// argument that cannot be encoded.
	return s.begun || s.conn.IsClosed()
}

func (s *Sent) release() {
	if s.tx != nil {
		_ = rollback(s.call.caller, s.tx)
	}
	s.giveBack()
	s.stop()
}

// harmless reports whether an SQLSTATE leaves the prepared statements valid: refusals,
// concurrency errors, constraint violations.
func harmless(code string) bool {
	return strings.HasPrefix(code, "ZF") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "40") || code == pgadmit.LockTimeout
}

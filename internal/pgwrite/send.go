package pgwrite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// Statement is one statement of the body of a [Batch].
type Statement struct {
	SQL  string
	Args []any
}

// Batch is what is sent after the admission.
type Batch struct {
	Body []Statement
	// Implicit means that the body is one statement that cannot commit by itself. It may
	// then run without BEGIN and COMMIT: see [session.supportsImplicit].
	Implicit bool
	// Unbounded leaves the idle timeout of the caller's transaction unchanged.
	Unbounded bool
}

// request is what a call sends at once:
//
//	BEGIN · the admissions · the body · COMMIT
//
// A refused admission raises an error. Then the server skips the rest of the request, so
// the body never runs.
type request struct {
	tx         transaction
	body       []Statement
	implicit   bool   // the body may run without BEGIN and COMMIT
	unbounded  bool   // the caller's transaction gets no idle limit
	uncompared bool   // in report-only mode another request compares the tokens
	minted     *int64 // if not nil, the admission is a mint, and this is set to its number
}

// Write sends the batch in a transaction of its own, or in the caller's, and reads the
// replies up to the body's. After a nil error, [Sent.Finish] must be called.
func (c *Call) Write(ctx context.Context, b Batch) (*Sent, error) {
	r := request{tx: ownTx, body: b.Body, implicit: b.Implicit && c.Tx == (pgx.TxOptions{})}
	if c.InTx() {
		r = request{tx: callersTx, body: b.Body, unbounded: b.Unbounded}
	}
	return c.send(ctx, r)
}

// errNotDurable is returned by Claim inside a transaction of the caller's.
var errNotDurable = errors.New("sqlguard: Guard.DB is a transaction, and Admit must be durable when it returns: use Join, or set DB to a pool")

// Claim raises the marks of the tokens in a durable transaction of its own, together with
// the body.
func (c *Call) Claim(ctx context.Context, body ...Statement) (*Sent, error) {
	if c.InTx() {
		return nil, errNotDurable
	}
	return c.send(ctx, request{tx: claimTx, body: body})
}

// Mint numbers an acquisition, durably or in the caller's transaction, and returns the
// number. tok has the highest number, so that every writer counts as older.
func (c *Call) Mint(ctx context.Context, tok token.Token) (int64, error) {
	c.Tokens = []token.Token{tok}
	r := request{tx: claimTx, minted: &tok.Number}
	if c.InTx() {
		r.tx = callersTx
	}
	s, err := c.send(ctx, r)
	if err == nil {
		err = s.Finish(nil)
	}
	if err != nil {
		return 0, err
	}
	noteMinted(ctx, tok)
	return tok.Number, nil
}

// send sends r until its tokens are admitted. In the caller's transaction it sends r
// once: a failed attempt has aborted the transaction.
func (c *Call) send(ctx context.Context, r request) (*Sent, error) {
	limit, bounded := c.idleLimit()
	var waited time.Duration
	for claimed := false; ; {
		if err := writectx.CheckSend(ctx); err != nil {
			return nil, notSent(err)
		}
		s, held, err := c.attempt(ctx, &r)
		if held == nil {
			return s, err
		}
		switch {
		case r.tx == callersTx, held.byWriters && !bounded:
			return nil, guard.WithCause(ctx, held.outcome())
		case held.byWriters:
			waited += held.waited
			err = c.waitThenEvict(ctx, held, waited >= limit)
		case !claimed:
			claimed = true
			err = c.claimFirst(ctx)
		case c.DangerouslyReportOnly: // the claim has waited for older writers in vain
			c.Tokens = slices.DeleteFunc(c.Tokens, func(tok token.Token) bool { return tok == held.tok })
			c.reportUncompared(ctx, held.tok, olderWriters)
		default:
			return nil, guard.WithCause(ctx, held.outcome())
		}
		if err != nil {
			return nil, err
		}
	}
}

// obstacle is why an admission has not succeeded yet. It can succeed after the token was
// claimed, or after the older writers have finished.
type obstacle struct {
	tok       token.Token
	byWriters bool // older writers hold the resource; otherwise the token was not claimed
	// waited is how long the whole request took, since the server buffers its replies
	// until the last one is ready.
	waited time.Duration
	err    error
}

// outcome returns the error of a call that cannot remove the obstacle.
func (o *obstacle) outcome() error {
	outcome := guard.ErrClaimFirst
	if o.byWriters {
		outcome = guard.ErrRetryable
	}
	return &OutcomeError{outcome, fmt.Errorf("sqlguard: admit %s: %w", o.tok, o.err)}
}

// Sent is a request that was sent and whose replies are being read.
type Sent struct {
	// Results are the replies from the body's on.
	Results pgx.BatchResults

	call     *Call
	request  *request
	caller   context.Context
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

// attempt sends r once and reads the replies up to the body's. If it returns an obstacle
// or an error, the transaction is rolled back and the connection returned.
func (c *Call) attempt(ctx context.Context, r *request) (*Sent, *obstacle, error) {
	commit := c.commitSQL(r.tx)
	s := &Sent{call: c, request: r, caller: ctx, batch: &pgx.Batch{}, commits: commit != ""}
	c.at(ctx, stepBegin)
	ctx, s.stop = writectx.New(ctx)
	if r.tx != callersTx || len(r.body) == 0 { // not a statement of the caller's own
		ctx = c.reportedSteps(ctx)
	}
	var err error
	if s.session, err = c.connect(ctx); err != nil {
		return nil, nil, s.unsent(err)
	}
	s.implicit = r.implicit && s.supportsImplicit()
	explicit := r.tx != callersTx && !s.implicit
	switch {
	case explicit && r.tx == claimTx:
		s.batch.BeginTx(claimOptions)
	case explicit:
		s.batch.BeginTx(c.Tx)
	}
	for _, tok := range c.Tokens {
		sql, args := c.admission(r, tok)
		s.admits = sql
		s.batch.Queue(sql, args...)
	}
	for _, q := range r.body {
		s.batch.Queue(q.SQL, q.Args...)
	}
	if s.commits && explicit {
		s.batch.Queue(commit)
	}
	panicked := true
	defer func() {
		if panicked { // in an argument's method or a hook: the connection must still be returned
			s.Discard(ErrPanicked)
		}
	}()
	s.Results = s.db.SendBatch(ctx, s.batch)
	s.sentAt = time.Now()
	held, err := s.readAdmissions(explicit)
	panicked = false
	return s, held, err
}

// unsent closes a request for which there was no connection, or whose server is not known
// to fence. It aborts the caller's transaction.
func (s *Sent) unsent(err error) error {
	Abort(s.caller, s.call.Config, s.call.db)
	if !errors.Is(err, guard.ErrUnfenced) {
		err = s.wrap(err)
	}
	return s.fail(err)
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
	for _, tok := range s.call.Tokens {
		if err := s.call.readAdmission(s.caller, s.request, s.Results, tok); err != nil {
			return s.notAdmitted(tok, err)
		}
		s.begun = true
	}
	return nil, nil //nolint:nilnil // admitted
}

// notAdmitted closes a request whose admission of tok failed with err.
func (s *Sent) notAdmitted(tok token.Token, err error) (*obstacle, error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || errors.As(err, new(pgx.ErrPreprocessingBatch)) {
		return nil, s.fail(s.wrap(err))
	}
	switch pg.Code {
	case pgadmit.Stale, pgadmit.Collision:
		return nil, s.Refuse(tok, err)
	case pgadmit.ClaimFirst, pgadmit.LockTimeout:
		waited := time.Since(s.sentAt)
		s.Discard(err)
		return &obstacle{tok: tok, byWriters: pg.Code == pgadmit.LockTimeout, waited: waited, err: err}, nil
	}
	if s.commits && len(s.request.body) > 0 && mayBeStandby(pg) {
		return nil, s.fail(&OutcomeError{guard.ErrUnknown, s.wrap(err)})
	}
	return nil, s.fail(s.wrap(err))
}

// Refuse closes a request to which the server replied with err, a refusal of tok. If err
// is not a refusal, it returns [Sent.Finish] of err.
func (s *Sent) Refuse(tok token.Token, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return s.Finish(err)
	}
	refusal := pgadmit.Refusal(tok, pg.Code, pg.Detail)
	if refusal == nil {
		return s.Finish(err)
	}
	s.Discard(err) // before the hook, which may be slow
	return guard.WithCause(s.caller, s.call.Hooks.Outcome(s.caller, &OutcomeError{refusal, err}, false))
}

// mayBeStandby reports whether a standby may have returned the error of an admission. A
// server skips the rest of the request then, and a standby could not run it. A pooler that
// sends each statement of a batch to a server of its choice does not skip it:
//
//  1. The admission is sent to the standby, which returns the error.
//  2. The next statement is sent to the primary, and committed there.
//
// A standby returns one of these errors:
//
//   - the one that admit raises on a standby
//   - class 42 or 3F000, before it has replayed the migration or the GRANT
//   - class 40, if the replay cancels the admission. The text depends on lc_messages, so
//     the file of the server decides: no other error of this class is raised in the two.
//
// Two errors of a standby are not recognised: it ends the session (57P01), or a timeout
// cancels the admission (57014). A primary returns the same while the admission waits for
// older writers, and applies nothing.
func mayBeStandby(pg *pgconn.PgError) bool {
	switch pg.Code[:min(2, len(pg.Code))] {
	case "25":
		return pg.Code == pgadmit.ReadOnly && pg.Message == onStandby
	case "3F", "42":
		return true
	case "40":
		return pg.File == "postgres.c" || pg.File == "standby.c"
	}
	return false
}

// onStandby is the error that admit raises on a standby.
const onStandby = "fencepost: this is a standby"

// wrap adds to err that the admission failed and not the caller's statement, and what may
// be missing.
func (s *Sent) wrap(err error) error {
	schema := statementsOf(s.call.Schema).schema
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

// claimFirst claims all tokens in a transaction of its own, before the transaction that
// failed with ZF004 is sent again.
func (c *Call) claimFirst(ctx context.Context) error {
	first := *c // another transaction to a simulation
	s, err := first.send(ctx, request{tx: claimTx, uncompared: true})
	if err == nil {
		err = s.Finish(nil)
	}
	var outcome *OutcomeError
	if errors.As(err, &outcome) && errors.Is(outcome.Outcome, guard.ErrUnknown) {
		// The mark may be raised to this token. Nothing of the write was sent.
		return guard.WithCause(ctx, fmt.Errorf("sqlguard: claim before the write: %w", outcome.Err))
	}
	return err
}

// waitThenEvict ends the sessions of the older writers that block the call, if due. The
// lock timeout that ended the attempt may have been the session's own, which is shorter.
// Report-only mode ends no session.
func (c *Call) waitThenEvict(ctx context.Context, o *obstacle, due bool) error {
	var evicted error
	if due && !c.DangerouslyReportOnly {
		evicted = c.evict(ctx, o.tok)
	}
	if evicted != nil && SQLState(evicted) == "" {
		return guard.WithCause(ctx, fmt.Errorf("sqlguard: evict for %s: %w", o.tok, evicted))
	}
	// The sleep is short compared with any limit. Without it, a session with a
	// lock_timeout of 1 ms would retry in a busy loop.
	timer := time.NewTimer(5*time.Millisecond + rand.N(5*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return guard.WithCause(ctx, errors.Join(fmt.Errorf("sqlguard: admit %s: older writers have not finished: %w", o.tok, ctx.Err()), evicted))
	}
}

// evict runs in a READ COMMITTED transaction of its own, since the function must see what
// is committed while it runs. An error with an SQLSTATE means that the role may not call
// the function, or that it does not exist.
func (c *Call) evict(ctx context.Context, tok token.Token) error {
	b := &pgx.Batch{}
	b.BeginTx(claimOptions)
	b.Queue(statementsOf(c.Schema).evict, tok.Resource, tok.Number)
	b.Queue(commitSQL)
	ctx = c.reportedSteps(ctx)
	over, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer over.giveBack()
	results := over.db.SendBatch(ctx, b)
	err = results.Close()
	if tx := results.Tx(); tx != nil {
		rollback(ctx, tx)
	}
	return err
}

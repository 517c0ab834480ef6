package pgwrite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
	Batch
	tx         transaction
	uncompared bool   // in report-only mode another request compares the tokens
	minted     *int64 // if not nil, the admission is a mint, and this is set to its number
}

// Write sends the batch in a transaction of its own, or in the caller's, and reads the
// replies up to the body's. After a nil error, [Sent.Finish] must be called.
func (c *Call) Write(ctx context.Context, b Batch) (*Sent, error) {
	r := request{Batch: b, tx: ownTx}
	if c.InTx() {
		r.tx = callersTx
	}
	s, err := c.send(ctx, r)
	return s, guard.WithCause(ctx, err)
}

// errNotDurable is returned by Claim inside a transaction of the caller's.
var errNotDurable = errors.New("sqlguard: Guard.DB is a transaction, and Admit must be durable when it returns: use Join, or set DB to a pool")

// Claim raises the marks of the tokens in a durable transaction of its own, together with
// the body.
func (c *Call) Claim(ctx context.Context, body ...Statement) (*Sent, error) {
	if c.InTx() {
		return nil, errNotDurable
	}
	s, err := c.send(ctx, request{Batch: Batch{Body: body}, tx: claimTx})
	return s, guard.WithCause(ctx, err)
}

// Mint numbers an acquisition, durably or in the caller's transaction, and returns the
// number. tok has the highest number, so that every writer counts as older.
func (c *Call) Mint(ctx context.Context, tok token.Token) (int64, error) {
	c.Tokens = []token.Token{tok}
	r := request{tx: claimTx, minted: &tok.Number}
	if c.InTx() {
		r.tx = callersTx
	} else {
		c.caller = asClaim(c.caller)
	}
	s, err := c.send(ctx, r)
	if err == nil {
		err = s.finish(nil)
	}
	if SQLState(err) == pgadmit.Exhausted {
		err = fmt.Errorf("%w: %w", token.ErrExhausted, err)
	}
	if err != nil {
		return 0, guard.WithCause(ctx, err)
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
		s, held, err := c.attempt(ctx, &r)
		if held == nil {
			return s, err
		}
		switch {
		case r.tx == callersTx, held.byWriters && !bounded:
			return nil, held.outcome()
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
			return nil, held.outcome()
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

// attempt sends r once and reads the replies up to the body's. If it returns an obstacle
// or an error, the transaction is rolled back and the connection returned.
func (c *Call) attempt(caller context.Context, r *request) (*Sent, *obstacle, error) {
	ctx, stop, err := writectx.Start(caller)
	if err != nil {
		return nil, nil, notSent(err)
	}
	commit := c.commitSQL(r.tx)
	s := &Sent{call: c, request: r, batch: &pgx.Batch{}, commits: commit != "", stop: stop}
	c.at(stepBegin)
	if r.tx != callersTx || len(r.Body) == 0 { // not a statement of the caller's own
		ctx = c.reportedSteps(ctx)
	}
	if s.session, err = c.connect(ctx); err != nil {
		if !errors.Is(err, guard.ErrUnfenced) {
			err = s.wrap(err)
		}
		return nil, nil, s.fail(err)
	}
	s.implicit = r.Implicit && r.tx == ownTx && c.Tx == (pgx.TxOptions{}) && s.supportsImplicit()
	explicit := r.tx != callersTx && !s.implicit
	switch {
	case explicit && r.tx == claimTx:
		s.batch.BeginTx(claimOptions)
	case explicit:
		s.batch.BeginTx(c.Tx)
	}
	for i, tok := range c.Tokens {
		sql, args := c.admission(r, tok, i == len(c.Tokens)-1)
		s.admits = sql
		s.batch.Queue(sql, args...)
	}
	for _, q := range r.Body {
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

// claimFirst claims all tokens in a transaction of its own, before the transaction that
// failed with ZF004 is sent again.
func (c *Call) claimFirst(ctx context.Context) error {
	first := *c // another transaction to a simulation
	s, err := first.send(ctx, request{tx: claimTx, uncompared: true})
	if err == nil {
		err = s.finish(nil)
	}
	var outcome *OutcomeError
	if errors.As(err, &outcome) && errors.Is(outcome.Outcome, guard.ErrUnknown) {
		// The mark may be raised to this token. Nothing of the write was sent.
		return fmt.Errorf("sqlguard: claim before the write: %w", outcome.Err)
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
		return fmt.Errorf("sqlguard: evict for %s: %w", o.tok, evicted)
	}
	// The sleep is short compared with any limit. Without it, a session with a
	// lock_timeout of 1 ms would retry in a busy loop.
	timer := time.NewTimer(5*time.Millisecond + rand.N(5*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("sqlguard: admit %s: older writers have not finished: %w", o.tok, ctx.Err()), evicted)
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
		_ = rollback(ctx, tx)
	}
	return err
}

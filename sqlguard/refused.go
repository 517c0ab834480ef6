package sqlguard

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// blocked is an admission that succeeds once something else has been done.
type blocked struct {
	tok  token.Token
	code string // codeClaimFirst or codeLockTimeout
	// waited is how long the packet was on its way: the server keeps its
	// answers until the last of them is there.
	waited time.Duration
	err    error
}

func (b *blocked) Error() string { return b.err.Error() }

// verdict is what a blocked admission comes to where nothing else can be done.
func (b *blocked) verdict() error {
	outcome := guard.ErrRetryable
	if b.code == codeClaimFirst {
		outcome = guard.ErrClaimFirst
	}
	return &verdict{outcome, fmt.Errorf("sqlguard: admit %s: %w", b.tok, b.err)}
}

// refused settles a packet whose admission of tok was answered with err.
func (c *call) refused(f *flight, tok token.Token, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || errors.As(err, new(pgx.ErrPreprocessingBatch)) {
		return f.fail(c.wrap(err))
	}
	switch pg.Code {
	case codeStale, codeCollision:
		f.drop(err) // before anybody is told: an observer may be slow
		return guard.WithLoss(f.caller, c.Observer.Judge(f.caller, &verdict{stale(tok, pg), err}, false))
	case codeClaimFirst, codeLockTimeout:
		waited := time.Since(f.sent)
		f.drop(err)
		return &blocked{tok: tok, code: pg.Code, waited: waited, err: err}
	}
	return f.fail(c.wrap(err))
}

// wrap says that it was not the caller's statement that failed, and what may
// be missing.
func (c *call) wrap(err error) error {
	var early pgx.ErrPreprocessingBatch
	switch {
	case errors.As(err, &early) && early.SQL() != c.admit.sql:
		return err
	case sqlState(err) == codeNoSchema, sqlState(err) == codeNoFunction:
		return fmt.Errorf("sqlguard: schema %q lacks what package migrations creates: %w", c.stmts.schema, err)
	}
	return fmt.Errorf("sqlguard: admission: %w", err)
}

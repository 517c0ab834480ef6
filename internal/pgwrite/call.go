// Package pgwrite sends guarded writes to PostgreSQL over pgx: the admissions, the
// statements and the COMMIT in one request. If older writers hold the resource, it waits,
// ends their sessions after IdleTimeout, and sends the request again. It returns one
// outcome for each write. Packages sqlguard and rowguard are its public API.
//
//	call.go       what is admitted, where, and with which statement
//	send.go       the request, the retry loop, evictions
//	reply.go      the replies: refusals, report-only mode, a batch's COMMIT; how a request is
//	              closed
//	outcome.go    what an error means
//	tx.go         transactions that stay open after the admission, and their COMMIT
//	once.go       a unit that is applied once: inserted, its result, found after a refusal
//	settle.go     a COMMIT whose reply was lost: what became of the transaction
//	session.go    the connection, the check of its server, ROLLBACK, and the statement that
//	              aborts the caller's transaction
//	exec.go       a statement that is a transaction by itself
//	simulated.go  the switch for simulations
package pgwrite

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/token"
)

// DB is what a call sends its batches over.
type DB = interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Config has the fields of sqlguard.Guard, where they are documented. The two types
// convert to each other.
type Config struct {
	DB                     DB
	Schema                 string
	Tx                     pgx.TxOptions
	IdleTimeout            time.Duration
	DangerouslyReportOnly  bool
	DangerouslyTrustEngine bool
	Retention              time.Duration
	Hooks                  guard.Hooks
}

const (
	// DefaultSchema is the schema of package migrations if none is given.
	DefaultSchema = "fencepost"
	defaultIdle   = 5 * time.Second
)

var (
	errNoDB     = errors.New("sqlguard: Guard has no DB")
	errReadOnly = errors.New("sqlguard: Guard.Tx is read only: an admission may write the mark")
	errClosed   = fmt.Errorf("sqlguard: %w", pgconn.ErrConnClosed)
	errInTx     = errors.New("sqlguard: the connection is inside a transaction already: set Guard.DB to that pgx.Tx")
	errNoBegin  = errors.New("sqlguard: DB does not support pgx.Batch.BeginTx")
)

// Call is one use of a guard: what is admitted, and where.
type Call struct {
	*Config
	// Tokens are admitted in this order. Nil admits none.
	Tokens []token.Token
	// WouldRefuse is called in report-only mode for a mark that would have refused a
	// token. If it is nil, Hooks are called.
	WouldRefuse func(tok token.Token, mark guard.Mark)

	db       DB
	quiet    bool            // a refusal by the mark is returned without a call of the hooks
	reported bool            // the engine check was reported
	name     pgadmit.TxName  // of the open transaction
	caller   context.Context // the caller's: a simulation may listen to its steps
}

// New returns a call over db, which may differ from the DB of config. The call's methods
// must be called with the same ctx.
func New(ctx context.Context, config *Config, db DB) (Call, error) {
	if err := check(db); err != nil {
		return Call{}, err
	}
	return Call{Config: config.simulated(ctx), db: db, caller: ctx}, nil
}

// check returns an error for a db that cannot be guarded. For a BEGIN inside a
// transaction PostgreSQL only warns, and the COMMIT that follows would end the caller's
// transaction.
func check(db DB) error {
	if db == nil {
		return errNoDB
	}
	if _, ok := db.(pgx.Tx); ok {
		return nil
	}
	var conn *pgx.Conn
	switch db := db.(type) {
	case *pgx.Conn:
		conn = db
	case interface{ Conn() *pgx.Conn }: // *pgxpool.Conn
		conn = db.Conn()
	}
	switch {
	case conn == nil:
		return nil
	case conn.IsClosed():
		return errClosed
	case conn.PgConn().TxStatus() != 'I':
		return errInTx
	}
	return nil
}

// CheckWritable returns an error if the transactions of the Config are read only.
func (c *Config) CheckWritable() error {
	if c.Tx.AccessMode == pgx.ReadOnly {
		return errReadOnly
	}
	return nil
}

// InTx reports whether the call works inside the caller's transaction.
func (c *Call) InTx() bool {
	_, ok := c.db.(pgx.Tx)
	return ok
}

// Token returns the token that ctx carries for resource. In report-only mode it returns
// the zero token if there is none.
func (c *Call) Token(ctx context.Context, resource string) (token.Token, error) {
	tok, err := token.FromContext(ctx, resource)
	if err == nil {
		return tok, nil
	}
	return token.Token{}, guard.WithCause(ctx, c.Hooks.Outcome(ctx, err, c.DangerouslyReportOnly))
}

// idleLimit returns how long a transaction may be idle, and how long a newer token waits
// for older writers. bounded is false if there is no limit.
func (c *Config) idleLimit() (limit time.Duration, bounded bool) {
	switch {
	case c.IdleTimeout < 0:
		return 0, false
	case c.IdleTimeout == 0:
		return defaultIdle, true
	}
	return time.Duration(pgadmit.Milliseconds(c.IdleTimeout)) * time.Millisecond, true
}

// transaction is which statements surround a request.
type transaction uint8

const (
	// ownTx is BEGIN and COMMIT, with the options of the Config.
	ownTx transaction = iota
	// claimTx is BEGIN and COMMIT, and raises a mark durably.
	claimTx
	// openTx is BEGIN. The transaction continues after the request.
	openTx
	// callersTx is neither: the caller begins and ends the transaction.
	callersTx
)

// claimOptions are the options of a claimTx: READ COMMITTED and READ WRITE, whatever the
// session's defaults are.
var claimOptions = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

const commitSQL = "commit"

func (c *Config) commitSQL(t transaction) string {
	switch {
	case t == openTx, t == callersTx:
		return ""
	case t == ownTx && c.Tx.CommitQuery != "":
		return c.Tx.CommitQuery
	}
	return commitSQL
}

// wait returns how long the admissions of a request with t wait for older writers.
func (c *Config) wait(t transaction) pgadmit.Wait {
	if t == ownTx || t == openTx {
		return pgadmit.NoRaise
	}
	limit, _ := c.idleLimit() // if unbounded, 0: wait without a limit
	return pgadmit.WaitFor(limit)
}

// admission returns the statement of r that admits tok, and its arguments. That of the
// last token also names and bounds a transaction that stays open.
func (c *Call) admission(r *request, tok token.Token, last bool) (sql string, args []any) {
	stmts, wait := statementsOf(c.Schema), int32(c.wait(r.tx))
	if r.minted != nil {
		return stmts.mint, []any{tok.Resource, tok.Holder, wait}
	}
	limit, bounded := c.idleLimit()
	args = []any{tok.Resource, tok.Number, tok.Holder, wait}
	switch {
	case c.DangerouslyReportOnly:
		return stmts.reportOnly, args
	case r.tx == claimTx:
		return stmts.admitDurable, args
	case r.tx == openTx && last && bounded:
		return stmts.admitOpen, append(args, milliseconds(limit))
	case r.tx == openTx && last:
		return stmts.admitOpen, append(args, nil)
	case r.tx == callersTx && !r.Unbounded && bounded:
		return stmts.admitBounded, append(args, milliseconds(limit))
	}
	return stmts.admit, args
}

// milliseconds returns d as a setting of the server.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

var (
	//go:embed admit.sql
	admitSQL string
	//go:embed admit_bounded.sql
	admitBoundedSQL string
	//go:embed admit_durable.sql
	admitDurableSQL string
	//go:embed admit_open.sql
	admitOpenSQL string
	//go:embed report_only.sql
	reportOnlySQL string
	//go:embed mint.sql
	mintSQL string
	//go:embed evict.sql
	evictSQL string
)

// statements are the SQL texts for one schema.
type statements struct {
	admit, admitBounded, admitDurable, admitOpen, reportOnly, mint, evict string
	confirm, fate, endTransaction                                         string
	insertUnit, setResult, findUnit                                       string
}

// prepared has the texts of every schema in use, so that they are built once.
var prepared sync.Map // from schema to *statements

func statementsOf(schema string) *statements {
	if schema == "" {
		schema = DefaultSchema
	}
	if s, ok := prepared.Load(schema); ok {
		return s.(*statements)
	}
	// A schema's name cannot be a parameter. Quoted, it can be anything.
	in := strings.NewReplacer(`"fencepost".`, pgx.Identifier{schema}.Sanitize()+".")
	text := func(file string) string {
		start := strings.Index(file, "SELECT") // the header is for readers of the file
		return in.Replace(strings.TrimSpace(file[start:]))
	}
	s := &statements{
		admit: text(admitSQL), admitBounded: text(admitBoundedSQL), admitDurable: text(admitDurableSQL),
		admitOpen: text(admitOpenSQL), reportOnly: text(reportOnlySQL), mint: text(mintSQL), evict: text(evictSQL),
		confirm: text(pgadmit.ConfirmSQL), fate: text(pgadmit.FateSQL), endTransaction: text(pgadmit.EndTransactionSQL),
		insertUnit: text(pgadmit.InsertUnitSQL), setResult: text(pgadmit.SetResultSQL), findUnit: text(pgadmit.FindUnitSQL),
	}
	prepared.Store(schema, s)
	return s
}

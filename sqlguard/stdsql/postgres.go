package stdsql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	_ "embed"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// postgres calls the same functions as package sqlguard.
type postgres struct {
	baseDialect
	*statements
	bound      time.Duration // Guard.IdleTimeout, 0 for no bound
	reportOnly bool
	trust      bool           // Guard.DangerouslyTrustEngine
	aborted    bool           // the server has replied to an admission with an error
	name       pgadmit.TxName // of the transaction that was admitted for writing
}

func newPostgres(g *Guard) *postgres {
	return &postgres{
		statements: statementsOf(g.Schema), bound: g.idleBound(),
		reportOnly: g.DangerouslyReportOnly, trust: g.DangerouslyTrustEngine,
	}
}

// claimOptions returns READ COMMITTED, whatever the session's default is: a raise waits
// for older writers, and its snapshot must be taken after the wait.
func (*postgres) claimOptions(*sql.TxOptions) *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

func (d *postgres) admit(ctx context.Context, tx Tx, tok token.Token, p purpose) (*blocked, error) {
	wait := pgadmit.WaitFor(d.bound)
	if p == writing {
		wait = pgadmit.NoRaise
	}
	switch {
	case d.reportOnly:
		return d.compare(ctx, tx, tok, wait, p)
	case p == joining:
		return d.join(ctx, tx, tok)
	case p == writing:
		return d.open(ctx, tx, tok)
	}
	_, err := tx.ExecContext(ctx, d.claim, tok.Resource, tok.Number, tok.Holder, wait, pgadmit.Milliseconds(d.bound))
	return d.answer(err, tok)
}

// open admits in a transaction of the guard's own that stays open, and reads its name.
func (d *postgres) open(ctx context.Context, tx Tx, tok token.Token) (*blocked, error) {
	var admitted, idle any
	row := tx.QueryRowContext(ctx, d.admitOpen, tok.Resource, tok.Number, tok.Holder, pgadmit.NoRaise, pgadmit.Milliseconds(d.bound))
	return d.answer(row.Scan(&admitted, &d.name, &idle), tok)
}

// mint waits in report-only mode until ctx ends, since report-only mode ends no sessions.
// In the caller's transaction the wait is bounded.
func (d *postgres) mint(ctx context.Context, tx Tx, tok token.Token, p purpose) (number int64, block *blocked, err error) {
	wait, idle := pgadmit.WaitFor(d.bound), d.bound
	if d.reportOnly {
		idle = 0
		if p != joining {
			wait = pgadmit.WaitForever
		}
	}
	var limit any
	var checked sql.NullString
	row := tx.QueryRowContext(ctx, d.statements.raise, tok.Resource, tok.Holder, wait, pgadmit.Milliseconds(idle))
	if block, err = d.answer(row.Scan(&number, &limit, &checked), tok); block != nil || err != nil || p != joining {
		return number, block, err
	}
	return number, nil, d.checkSession(ctx, tx, checked.String)
}

// compare is admit in report-only mode. The server raises no error, since an error would
// abort the transaction.
func (d *postgres) compare(ctx context.Context, tx Tx, tok token.Token, wait pgadmit.Wait, p purpose) (*blocked, error) {
	var number *int64
	var holder *string
	var checked sql.NullString
	err := tx.QueryRowContext(ctx, d.statements.reportOnly, tok.Resource, tok.Number, tok.Holder, wait).Scan(&number, &holder, &checked)
	switch {
	case err != nil:
		return d.answer(err, tok)
	case number == nil && p == joining:
		return nil, d.checkSession(ctx, tx, checked.String)
	case number == nil:
		return nil, nil
	case *number == 0 && *holder == "standby":
		return &blocked{tok: tok, outcome: guard.ErrRetryable, err: errStandby, txUsable: true}, nil
	case *number == 0:
		return &blocked{tok: tok, outcome: guard.ErrRetryable, err: errOlder, txUsable: true}, nil
	}
	return nil, &guard.StaleError{Token: tok, Mark: guard.Mark{Number: *number, Holder: *holder}}
}

// abortSQL fails in every transaction, on every server to which a pooler may send it, and
// changes nothing. The savepoint does not exist.
const abortSQL = `ROLLBACK TO SAVEPOINT "stdsql: the transaction was not admitted"`

func (d *postgres) abortOnServer(ctx context.Context, tx Tx) bool {
	if d.aborted {
		return true
	}
	ctx, cancel := writectx.ForCleanup(ctx)
	defer cancel()
	_, err := tx.ExecContext(ctx, abortSQL)
	return pgadmit.SQLState(err) != ""
}

// answer returns the obstacle or the error that err means, the server's reply to an
// admission of tok.
func (d *postgres) answer(err error, tok token.Token) (*blocked, error) {
	state := pgadmit.SQLState(err)
	d.aborted = d.aborted || state != ""
	switch state {
	case pgadmit.Stale, pgadmit.Collision:
		return nil, pgadmit.Refusal(tok, state, detail(err))
	case pgadmit.ClaimFirst:
		return &blocked{tok: tok, outcome: guard.ErrClaimFirst, err: err}, nil
	case pgadmit.LockTimeout:
		return &blocked{tok: tok, outcome: guard.ErrRetryable, err: err}, nil
	case pgadmit.Exhausted:
		return nil, exhausted(tok, err)
	case pgadmit.ReadOnly:
		return nil, fmt.Errorf("stdsql: %s: %w: %w", action(tok), errStandby, err)
	case pgadmit.NoSchema, pgadmit.NoFunction:
		return nil, fmt.Errorf("stdsql: schema %q lacks tables or functions: run migrations.Up: %w", d.schema, err)
	}
	if err != nil {
		return nil, fmt.Errorf("stdsql: %s: %w", action(tok), err)
	}
	return nil, nil
}

func (d *postgres) evictAfter() time.Duration {
	if d.reportOnly { // report-only mode ends no sessions
		return 0
	}
	return d.bound
}

// evict runs in a READ COMMITTED transaction of its own, since the function must see what
// is committed while it runs. An error with an SQLSTATE means that the role may not call
// the function, or that it does not exist: then the claim continues to wait. A token that
// is to be minted will have a higher number than any.
func (d *postgres) evict(ctx context.Context, db *sql.DB, tok token.Token) error {
	tx, err := db.BeginTx(ctx, d.claimOptions(nil))
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, d.statements.evict, tok.Resource, cmp.Or(tok.Number, token.MaxNumber)); err != nil {
		if pgadmit.SQLState(err) != "" {
			return nil
		}
		return err
	}
	return tx.Commit()
}

func (*postgres) probe(ctx context.Context, from Tx) error {
	var version, extensions string
	if err := from.QueryRowContext(ctx, engine.PostgresQuery).Scan(&version, &extensions); err != nil {
		return fmt.Errorf("stdsql: query the engine: %w", err)
	}
	return engine.CheckPostgres(version, extensions)
}

// join admits in the caller's transaction, and reads in the same statement whether the
// session was checked.
func (d *postgres) join(ctx context.Context, tx Tx, tok token.Token) (*blocked, error) {
	var admitted, idle any
	var checked sql.NullString
	row := tx.QueryRowContext(ctx, d.statements.admit, tok.Resource, tok.Number, tok.Holder, pgadmit.WaitFor(d.bound), pgadmit.Milliseconds(d.bound))
	if block, err := d.answer(row.Scan(&admitted, &idle, &checked), tok); block != nil || err != nil {
		return block, err
	}
	return nil, d.checkSession(ctx, tx, checked.String)
}

// checkSession is the probe for Join, which has no connection to which the result could
// be attached. The result is kept in a setting of the session that only this package
// reads. Behind a pooler in transaction mode it belongs to the server's connection, and
// is valid for each client that gets that connection.
func (d *postgres) checkSession(ctx context.Context, tx Tx, checked string) error {
	if d.trust || checked == engineChecked {
		return nil
	}
	if err := d.probe(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_catalog.set_config('fencepost.engine', '"+engineChecked+"', false)"); err != nil {
		return fmt.Errorf("stdsql: store the result of the engine check: %w", err)
	}
	return nil
}

// checkAfter is the age of a transaction from which on its session is asked before
// COMMIT: it may have been ended for being idle or for blocking a successor.
const checkAfter = 100 * time.Millisecond

// detail returns the detail of the server's error in err, or "". In pgx and lib/pq it is
// a field of that name.
func detail(err error) string {
	var server interface{ SQLState() string }
	if !errors.As(err, &server) {
		return ""
	}
	if fields := reflect.Indirect(reflect.ValueOf(server)); fields.Kind() == reflect.Struct {
		if detail := fields.FieldByName("Detail"); detail.IsValid() && detail.Kind() == reflect.String {
			return detail.String()
		}
	}
	return ""
}

// beforeEnd asks the session of an old transaction whether it is still the admitted one. That
// costs a round trip and prevents an unknown outcome.
func (d *postgres) beforeEnd(ctx context.Context, t *transaction) (endedInFn bool, err error) {
	if time.Since(t.begun) <= checkAfter {
		return false, nil
	}
	_, err = t.ExecContext(ctx, d.stillAdmitted())
	switch {
	case pgadmit.SQLState(err) == pgadmit.NoSetting:
		return true, nil
	case errors.Is(err, sql.ErrTxDone):
		return false, nil // COMMIT returns that error
	}
	return false, err
}

// stillAdmitted returns a statement that fails with NoSetting outside the transaction that was
// admitted for writing. In report-only mode there may be none.
func (d *postgres) stillAdmitted() string {
	if d.name == "" {
		return "-- ping"
	}
	return pgadmit.AdmittedSQL
}

var (
	// The errors of pgx and lib/pq for a COMMIT that the server has answered with
	// ROLLBACK, because an earlier error had aborted the transaction.
	postgresRollback = containsAny("commit unexpectedly resulted in rollback", "Could not complete operation in a failed transaction")
)

// notApplied is true if the server replied to the COMMIT with an error that cannot mean
// the end of the session.
func (*postgres) notApplied(t *transaction, err error) bool {
	state := pgadmit.SQLState(err)
	known := postgresRollback(err) || len(state) == 5 && !pgadmit.Ambiguous(state, "") && !pgadmit.Interrupted(state)
	if !known && !errors.Is(err, sql.ErrTxDone) {
		t.discard()
	}
	return known
}

func (*postgres) outcome(err error, _ time.Duration) error {
	return pgadmit.Outcome(pgadmit.SQLState(err))
}

var (
	errOlder   = errors.New("older writers have not finished")
	errStandby = errors.New("the admission was sent to a standby, or is in a READ ONLY transaction: connect to the primary; " +
		"a pooler that splits reads from writes must send the functions of the schema of the marks there")
)

// defaultSchema is where package migrations creates the tables and functions by default.
const defaultSchema = "fencepost"

var (
	//go:embed postgres_admit.sql
	postgresAdmit string
	//go:embed postgres_admit_open.sql
	postgresAdmitOpen string
	//go:embed postgres_claim.sql
	postgresClaim string
	//go:embed postgres_mint.sql
	postgresMint string
	//go:embed postgres_report_only.sql
	postgresReportOnly string
	//go:embed postgres_evict.sql
	postgresEvict string
)

// statements are the texts for one schema.
type statements struct {
	schema                                            string
	admit, admitOpen, claim, raise, reportOnly, evict string
	confirm, fate, endTransaction                     string
	insertUnit, setResult, findUnit                   string
}

// statementsBySchema has the texts of every schema in use.
var statementsBySchema sync.Map // from schema to *statements

func statementsOf(schema string) *statements {
	if schema == "" {
		schema = defaultSchema
	}
	if s, ok := statementsBySchema.Load(schema); ok {
		return s.(*statements)
	}
	// A schema's name cannot be a parameter. Quoted, it can have any character but a zero
	// byte, which no name has.
	name := strings.ReplaceAll(strings.ReplaceAll(schema, "\x00", ""), `"`, `""`)
	in := strings.NewReplacer(`"fencepost".`, `"`+name+`".`)
	text := func(file string) string { return in.Replace(stripHeader(file)) }
	s := &statements{
		schema: schema,
		admit:  text(postgresAdmit), admitOpen: text(postgresAdmitOpen), claim: text(postgresClaim), raise: text(postgresMint),
		reportOnly: text(postgresReportOnly), evict: text(postgresEvict),
		confirm: text(pgadmit.ConfirmSQL), fate: text(pgadmit.FateSQL), endTransaction: text(pgadmit.EndTransactionSQL),
		insertUnit: text(pgadmit.InsertUnitSQL), setResult: text(pgadmit.SetResultSQL), findUnit: text(pgadmit.FindUnitSQL),
	}
	statementsBySchema.Store(schema, s)
	return s
}

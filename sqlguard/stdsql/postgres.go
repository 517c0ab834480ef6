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

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// postgres calls the same functions as package sqlguard.
type postgres struct {
	guard *Guard
	*statements
	bound   time.Duration  // Guard.IdleTimeout, 0 for no bound
	aborted bool           // the server has replied to an admission with an error
	name    pgadmit.TxName // of the transaction that was admitted for writing
}

// readCommitted is the isolation of a claim and of an eviction, whatever the session's
// default is: they wait, or act on what is committed meanwhile, and their snapshot must be
// taken after the wait.
var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

func (d *postgres) admit(ctx context.Context, tx Tx, tok token.Token, p purpose) (*blocked, error) {
	wait := pgadmit.WaitFor(d.bound)
	if p == writing {
		wait = pgadmit.NoRaise
	}
	if d.guard.DangerouslyReportOnly {
		return d.compare(ctx, tx, tok, wait, p)
	}
	args := []any{tok.Resource, tok.Number, tok.Holder, wait, pgadmit.Milliseconds(d.bound)}
	var admitted, idle any
	switch p {
	case writing:
		return d.answer(tx.QueryRowContext(ctx, d.admitOpen, args...).Scan(&admitted, &d.name, &idle), tok)
	case joining:
		var checked sql.NullString
		err := tx.QueryRowContext(ctx, d.statements.admit, args...).Scan(&admitted, &idle, &checked)
		if block, err := d.answer(err, tok); block != nil || err != nil {
			return block, err
		}
		return nil, d.checkSession(ctx, tx, checked)
	}
	_, err := tx.ExecContext(ctx, d.claim, args...)
	return d.answer(err, tok)
}

// mint waits in report-only mode until ctx ends, since report-only mode ends no sessions.
// In the caller's transaction the wait is bounded.
func (d *postgres) mint(ctx context.Context, tx Tx, tok token.Token, p purpose) (number int64, block *blocked, err error) {
	wait, idle := pgadmit.WaitFor(d.bound), d.bound
	if d.guard.DangerouslyReportOnly {
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
	return number, nil, d.checkSession(ctx, tx, checked)
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
		return nil, d.checkSession(ctx, tx, checked)
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

// abort makes the server refuse later statements of a transaction whose admission failed.
// It returns false if the server has not replied.
func (d *postgres) abort(ctx context.Context, tx Tx) bool {
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

// canEvict reports whether a claim that waits for older writers ends their sessions, after
// the bound. In report-only mode it does not.
func (d *postgres) canEvict() bool { return d.bound > 0 && !d.guard.DangerouslyReportOnly }

// evict ends the sessions of the writers that are older than tok. An error with an SQLSTATE
// means that the role may not call the function, or that it does not exist: then the claim
// continues to wait. A token that is to be minted will have a higher number than any.
func (d *postgres) evict(ctx context.Context, db *sql.DB, tok token.Token) error {
	ctx, cancel := writectx.New(ctx)
	defer cancel()
	tx, err := db.BeginTx(ctx, readCommitted)
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

// checkSession checks the engine of a Join. Behind a pooler in transaction mode the setting
// belongs to the server's connection, and is valid for each client that gets it.
func (d *postgres) checkSession(ctx context.Context, tx Tx, checked sql.NullString) error {
	return d.guard.checkSession(ctx, tx, d, checked, "SELECT pg_catalog.set_config('fencepost.engine', '"+engineChecked+"', false)")
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

// postgresRollback reports the errors of pgx and lib/pq for a COMMIT that the server has
// answered with ROLLBACK, because an earlier error had aborted the transaction.
var postgresRollback = containsAny("commit unexpectedly resulted in rollback", "Could not complete operation in a failed transaction")

// endsTransaction is false: a failed statement leaves the transaction open, and aborted.
func (*postgres) endsTransaction(error) bool { return false }

// notApplied is true if the server replied to the COMMIT with an error that cannot mean
// the end of the session.
func (*postgres) notApplied(err error) bool {
	state := pgadmit.SQLState(err)
	return postgresRollback(err) || len(state) == 5 && !pgadmit.Ambiguous(state, "") && !pgadmit.Interrupted(state)
}

// settle returns the error of a COMMIT that failed with lost and may have been applied, or
// nil if it was applied. It asks on another connection of the pool: the transaction's was
// discarded.
func (d *postgres) settle(ctx context.Context, t *transaction, lost error) error {
	if d.name == "" { // a claim, or report-only mode
		return t.unknownOutcome(lost)
	}
	fate, err := pgadmit.Settle(untraced(ctx), d.name, func(ctx context.Context) (pgadmit.Session, error) {
		conn, err := t.DB.Conn(ctx)
		if err != nil {
			return nil, err
		}
		return &settlement{conn, d.statements}, nil
	})
	switch {
	case err != nil: // as text: it may be the end of a context that is not the caller's
		return t.unknownOutcome(fmt.Errorf("%w; not settled: %s", lost, err.Error()))
	case fate == pgadmit.Committed:
		return nil
	}
	if err := t.outcomeError(lost); hasOutcome(err) {
		return err
	}
	return fmt.Errorf("%w: it was rolled back: %w", guard.ErrRetryable, lost)
}

// settlement is a [pgadmit.Session].
type settlement struct {
	conn *sql.Conn
	*statements
}

func (s *settlement) Fate(ctx context.Context, name pgadmit.TxName) (pgadmit.Fate, error) {
	var fate sql.NullString
	err := s.conn.QueryRowContext(ctx, s.fate, string(name)).Scan(&fate)
	return pgadmit.Fate(fate.String), err
}

// Confirm does not see a WARNING: database/sql has no notices.
func (s *settlement) Confirm(ctx context.Context) error {
	_, err := s.conn.ExecContext(ctx, s.confirm)
	return err
}

func (s *settlement) End(ctx context.Context, name pgadmit.TxName) error {
	_, err := s.conn.ExecContext(ctx, s.endTransaction, string(name))
	return err
}

func (s *settlement) Close(context.Context) { s.conn.Close() }

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
	schema = cmp.Or(schema, defaultSchema)
	if s, ok := statementsBySchema.Load(schema); ok {
		return s.(*statements)
	}
	// A schema's name cannot be a parameter. Quoted, it can have any character but a zero
	// byte, which no name has.
	name := strings.ReplaceAll(strings.ReplaceAll(schema, "\x00", ""), `"`, `""`)
	in := strings.NewReplacer(`"fencepost".`, `"`+name+`".`)
	text := func(sql string) string { return in.Replace(stripHeader(sql)) }
	own := func(name string) string { return in.Replace(statement("postgres_" + name + ".sql")) }
	s := &statements{
		schema: schema,
		admit:  own("admit"), admitOpen: own("admit_open"), claim: own("claim"), raise: own("mint"),
		reportOnly: own("report_only"), evict: own("evict"),
		confirm: text(pgadmit.ConfirmSQL), fate: text(pgadmit.FateSQL), endTransaction: text(pgadmit.EndTransactionSQL),
		insertUnit: text(pgadmit.InsertUnitSQL), setResult: text(pgadmit.SetResultSQL), findUnit: text(pgadmit.FindUnitSQL),
	}
	statementsBySchema.Store(schema, s)
	return s
}

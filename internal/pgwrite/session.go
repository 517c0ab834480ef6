package pgwrite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/writectx"
)

// session is the connection over which a batch is sent.
type session struct {
	db       DB
	conn     *pgx.Conn     // nil for a DB of another kind
	borrowed *pgxpool.Conn // nil unless it is from a pool
}

func (s session) giveBack() {
	if s.borrowed != nil {
		s.borrowed.Release()
	}
}

// connect takes a connection, and checks the engine of its server unless that was done
// before. If the engine is not known to fence, it returns an [*engine.Error]. Report-only
// mode reports the error and continues. After an error the caller's transaction is aborted.
func (c *Call) connect(ctx context.Context) (session, error) {
	s, err := c.connection(ctx)
	if err != nil && !c.DangerouslyReportOnly {
		abort(ctx, c.db)
	}
	return s, err
}

func (c *Call) connection(ctx context.Context) (s session, err error) {
	s.db = c.db
	switch own := c.db.(type) {
	case *pgxpool.Pool:
		if s.borrowed, err = own.Acquire(ctx); err != nil {
			return session{}, err
		}
		s.conn = s.borrowed.Conn()
		s.db = s.conn
	case *pgxpool.Conn:
		s.conn = own.Conn()
	case *pgx.Conn:
		s.conn = own
	case pgx.Tx:
		s.conn = own.Conn()
	}
	if err := c.checkEngine(ctx, s); err != nil {
		s.giveBack()
		return session{}, err
	}
	return s, nil
}

func (c *Call) checkEngine(ctx context.Context, s session) error {
	if c.DangerouslyTrustEngine {
		return nil
	}
	err := s.engine(ctx)
	if !c.DangerouslyReportOnly || !errors.As(err, new(*engine.Error)) {
		return err
	}
	if !c.reported { // once per call
		c.report(ctx, fmt.Errorf("sqlguard: report-only, would have refused: %w", err))
	}
	c.reported = true
	return nil
}

// engineKey is the key in a connection's CustomData of the result of the engine check:
// nil or an *engine.Error.
const engineKey = "fencepost.sqlguard.engine"

// engine returns nil if the server is known to fence. It queries the server once per
// connection, in one round trip. In the caller's transaction the query is a statement of
// that transaction, since a pooler may send statements outside it to another server.
func (s session) engine(ctx context.Context) error {
	if s.conn == nil {
		return s.engineOfDB(ctx)
	}
	kept := s.conn.PgConn().CustomData()
	if answer, asked := kept[engineKey]; asked {
		err, _ := answer.(error)
		return err
	}
	results, err := s.conn.PgConn().Exec(ctx, engine.PostgresQuery).ReadAll()
	if err != nil {
		return unknownEngine(err)
	}
	var version, extensions string
	if len(results) == 1 && len(results[0].Rows) == 1 && len(results[0].Rows[0]) == 2 {
		version, extensions = string(results[0].Rows[0][0]), string(results[0].Rows[0][1])
	}
	err = engine.CheckPostgres(version, extensions)
	kept[engineKey] = err
	return err
}

// unknownEngine converts the error of the engine query. A server without the functions in
// the query is an unknown engine. Other errors do not depend on the engine.
func unknownEngine(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "42") || strings.HasPrefix(pg.Code, "0A")) {
		return &engine.Error{Engine: "an engine that does not identify itself", Reason: pg.Error()}
	}
	return err
}

// fencingDBs has the DB values of kinds that do not expose their connections, and whose
// server is known to fence. A program has few of them. If it creates a new value for each
// call, each call sends the query.
var fencingDBs struct {
	sync.Mutex
	known map[DB]bool
}

const maxFencingDBs = 64

func (s session) engineOfDB(ctx context.Context) error {
	comparable := reflect.ValueOf(s.db).Comparable()
	if comparable {
		fencingDBs.Lock()
		known := fencingDBs.known[s.db]
		fencingDBs.Unlock()
		if known {
			return nil
		}
	}
	b := &pgx.Batch{}
	b.Queue(engine.PostgresQuery)
	results := s.db.SendBatch(ctx, b)
	var version, extensions string
	err := results.QueryRow().Scan(&version, &extensions)
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return unknownEngine(err)
	}
	if err := engine.CheckPostgres(version, extensions); err != nil || !comparable {
		return err
	}
	fencingDBs.Lock()
	defer fencingDBs.Unlock()
	if fencingDBs.known == nil || len(fencingDBs.known) >= maxFencingDBs {
		fencingDBs.known = map[DB]bool{}
	}
	fencingDBs.known[s.db] = true
	return nil
}

// supportsImplicit reports whether the connection runs a batch without BEGIN as one
// implicit transaction. The server commits that at the Sync, or rolls it back if a
// statement failed (manual, "Pipelining"). That saves two statements, and after a refusal
// the round trip of the ROLLBACK. There is no reply to a COMMIT: ReadyForQuery proves it,
// and if the session ended before that, the outcome is unknown. Other kinds of DB may not
// do this, and in the simple protocol one string can be several statements.
func (s session) supportsImplicit() bool {
	return s.conn != nil && s.conn.PgConn().TxStatus() == 'I' && !isSimple(s.conn)
}

// modeKey is the key of a connection's exec mode in its CustomData. The method Config
// would copy the whole configuration.
const modeKey = "fencepost.sqlguard.simple"

func isSimple(conn *pgx.Conn) bool {
	kept := conn.PgConn().CustomData()
	simple, known := kept[modeKey].(bool)
	if !known {
		simple = conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
		kept[modeKey] = simple
	}
	return simple
}

// rollback also returns the connection to its pool. It does nothing after the transaction
// has ended. Its error may be ignored: then the connection is closed, and the server rolls
// back.
func rollback(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := writectx.ForCleanup(ctx)
	defer cancel()
	return tx.Rollback(ctx)
}

// abortSQL fails in every transaction, on every server to which a pooler may send it, and
// changes nothing. The savepoint does not exist.
const abortSQL = `ROLLBACK TO SAVEPOINT "sqlguard: the transaction was not admitted"`

// Abort makes the server refuse every later statement in db up to its end or a ROLLBACK
// TO, if db is the caller's transaction. It is for an error that occurred before anything
// was sent. If the connection cannot send the statement, for example because the caller
// has unread rows, it is closed. In report-only mode nothing is aborted.
func Abort(ctx context.Context, config *Config, db DB) {
	if !config.simulated(ctx).DangerouslyReportOnly {
		abort(ctx, db)
	}
}

func abort(ctx context.Context, db DB) {
	tx, inTx := db.(pgx.Tx)
	if !inTx {
		return
	}
	conn := tx.Conn()
	if conn != nil && (conn.IsClosed() || conn.PgConn().TxStatus() == 'E') {
		return
	}
	ctx, cancel := writectx.ForCleanup(ctx)
	defer cancel()
	_, err := tx.Exec(ctx, abortSQL)
	if conn != nil && SQLState(err) == "" && !errors.Is(err, pgx.ErrTxClosed) {
		_ = conn.PgConn().Conn().Close()
	}
}

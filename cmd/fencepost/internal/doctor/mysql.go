package doctor

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/migrations"
)

// MySQL is a server to be examined, of MySQL or MariaDB, and one of its databases.
type MySQL struct {
	Config *mysql.Config
}

// mysqlServer is a server that has answered.
type mysqlServer struct {
	db     *sql.DB
	engine map[string]string // of engine.MySQLQuery
}

// mysqlHidden is the fix if the account lacks a right.
const mysqlHidden = "grant this account the rights of the program: SELECT, INSERT and UPDATE on fencepost_marks, and SELECT on fencepost_floor"

var mysqlChecks = []check[*mysqlServer]{
	{"engine", "M1", "The fence is a shared lock on a row, which must exclude on all nodes that accept writes.", mysqlEngine},
	{"tables", "G10", "Without its tables and rights a guard refuses everything. A table without transactions locks nothing, and a crash empties it.", mysqlTables},
	{"locks", "M2", "A claim waits for older writers by an exclusive lock, which their shared locks must block.", mysqlLocks},
	{"innodb_flush_log_at_trx_commit", "G26", "A commit that does not wait for the disk may be lost after it was acknowledged, and a claim with it.", judged((*mysqlServer).settings, mysqlFlush, "innodb_flush_log_at_trx_commit")},
	{"sync_binlog", "G26", "After a crash, a binary log that does not wait for the disk may lack changes that the tables or the replicas have.", judged((*mysqlServer).settings, mysqlBinlog, "log_bin", "sync_binlog")},
	{"lock waits", "", "A claim waits for older writers for innodb_lock_wait_timeout, and must then be retried.", judged((*mysqlServer).settings, mysqlLockWait, "innodb_lock_wait_timeout")},
	{"idle sessions", "", "The server ends the transaction of a session that is idle for longer. If a write is idle for longer, it fails.", judged((*mysqlServer).settings, mysqlIdle, "wait_timeout")},
	{"clock", "", "Mint draws numbers from this server's clock, and fencepost marks prune computes its cutoff from it.", mysqlClock},
}

// Examine makes all checks. It changes nothing. For up to a second it has a second
// connection, and locks the row of fencepost_floor.
func (m MySQL) Examine(ctx context.Context) (*Report, error) {
	config := m.Config.Clone()
	config.Logger = &mysql.NopLogger{} // the driver returns its errors too
	report := &Report{Server: fmt.Sprintf("mysql at %s, database %s", config.Addr, cmp.Or(config.DBName, "none"))}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if err := report.examineMySQL(ctx, db); err != nil {
		return nil, err
	}
	return report, nil
}

func (r *Report) examineMySQL(ctx context.Context, db *sql.DB) error {
	vars, err := engine.AskMySQL(ctx, db, engine.MySQLVariables...)
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", r.Server, err)
	}
	s := &mysqlServer{db: db, engine: vars}
	if r.Findings, err = examine(ctx, s, mysqlHidden, mysqlChecks); err != nil {
		return fmt.Errorf("%s: %w", r.Server, err)
	}
	return nil
}

// settings returns variables of this session. It returns an error if one is missing.
func (s *mysqlServer) settings(ctx context.Context, names ...string) (values []string, evidence string, err error) {
	all, err := engine.AskMySQL(ctx, s.db, names...)
	if err != nil {
		return nil, "", err
	}
	for i, name := range names {
		value, ok := all[name]
		if !ok {
			return nil, "", missingError("SHOW VARIABLES has no " + name)
		}
		if i > 0 {
			evidence += ", "
		}
		values, evidence = append(values, value), evidence+name+" is "+value
	}
	return values, evidence, nil
}

func mysqlEngine(_ context.Context, s *mysqlServer) (answer, error) {
	var unfenced *engine.Error
	if err := engine.CheckMySQL(s.engine); errors.As(err, &unfenced) {
		return fail(unfenced.Engine+" is not known to fence", unfenced.Reason+" ("+engine.Page+")")
	}
	return pass("version is " + s.engine["version"] + ", version_comment is " + s.engine["version_comment"])
}

// mysqlTables does not check the engine, which has a check of its own.
func mysqlTables(ctx context.Context, s *mysqlServer) (answer, error) {
	set := migrations.Set{Dialect: migrations.MySQL, DangerouslyTrustEngine: true}
	err := set.Check(ctx, s.db)
	var found *migrations.CheckError
	if errors.As(err, &found) {
		var evidence, fixes []string
		for _, finding := range found.Findings {
			what, fix, _ := strings.Cut(finding, ": ")
			evidence, fixes = append(evidence, what), append(fixes, fix)
		}
		return fail(strings.Join(evidence, "; "), strings.Join(fixes, "; ")+"; check that the DSN names the right database")
	}
	if err != nil {
		return answer{}, err
	}
	return pass("fencepost_marks and fencepost_floor are in InnoDB, and this account has its rights on them")
}

func mysqlClock(ctx context.Context, s *mysqlServer) (answer, error) {
	o, err := measure(ctx, func(ctx context.Context) (time.Time, error) {
		var micros int64
		err := s.db.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&micros)
		return time.UnixMicro(micros), err
	})
	if err != nil {
		return answer{}, err
	}
	return o.judge()
}

func mysqlFlush(evidence string, values []string) (answer, error) {
	if values[0] != "1" {
		return warn(evidence, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's file")
	}
	return pass(evidence)
}

func mysqlBinlog(evidence string, values []string) (answer, error) {
	if values[0] != "OFF" && values[0] != "0" && values[1] != "1" {
		return warn(evidence, "SET GLOBAL sync_binlog = 1, and in the server's file")
	}
	return pass(evidence)
}

// Bounds of waits, in seconds. Guard.IdleTimeout ends a paused writer after 5 s by
// default; a claim with a shorter wait gives up before that.
const (
	lockWaitLeast  = 6
	lockWaitMost   = 300
	mysqlIdleLeast = 60
)

func mysqlLockWait(evidence string, values []string) (answer, error) {
	switch seconds, err := strconv.Atoi(values[0]); {
	case err != nil:
		return answer{}, missingError(evidence)
	case seconds < lockWaitLeast:
		return warn(evidence+": a claim gives up before a paused writer is ended", "SET GLOBAL innodb_lock_wait_timeout = 50, or more than Guard.IdleTimeout")
	case seconds > lockWaitMost:
		return warn(evidence+": a claim waits as long", "SET GLOBAL innodb_lock_wait_timeout = 50, or end the context of the claim")
	}
	return pass(evidence)
}

func mysqlIdle(evidence string, values []string) (answer, error) {
	switch seconds, err := strconv.Atoi(values[0]); {
	case err != nil:
		return answer{}, missingError(evidence)
	case seconds > 0 && seconds < mysqlIdleLeast: // TiDB's 0 is none
		return warn(evidence, "SET GLOBAL wait_timeout = 28800: Guard.IdleTimeout bounds the transactions")
	}
	return pass(evidence)
}

// Error numbers: MySQL 8.0 Error Message Reference.
const (
	mysqlNoDatabase = 1046
	mysqlDenied     = 1142
	mysqlNoTable    = 1146
	mysqlLockWaited = 1205
)

// mysqlLocks takes a shared lock on the floor's row on one connection. An exclusive lock on
// a second connection must then wait. Both roll back. Locks of other nodes are not checked.
func mysqlLocks(ctx context.Context, s *mysqlServer) (answer, error) {
	shared, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return answer{}, err
	}
	defer shared.Rollback()
	var number int64
	err = shared.QueryRowContext(ctx, "SELECT number FROM fencepost_floor LOCK IN SHARE MODE").Scan(&number)
	if a, err := mysqlUnlocked(err); a.verdict != "" || err != nil {
		return a, err
	}
	other, err := s.db.Conn(ctx)
	if err != nil {
		return answer{}, err
	}
	// The connection is closed, because later checks read the setting.
	defer func() { _ = other.Raw(func(any) error { return driver.ErrBadConn }) }()
	// NOWAIT is not known to MySQL 5.7.
	if _, err := other.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
		return answer{}, err
	}
	alone, err := other.BeginTx(ctx, nil)
	if err != nil {
		return answer{}, err
	}
	defer alone.Rollback()
	err = alone.QueryRowContext(ctx, "SELECT number FROM fencepost_floor FOR UPDATE").Scan(&number)
	switch engine.MySQLNumber(err) {
	case mysqlLockWaited:
		return pass("FOR UPDATE on a second connection waited for LOCK IN SHARE MODE on the first, until innodb_lock_wait_timeout")
	case 0:
		if err == nil {
			return fail("FOR UPDATE on a second connection succeeded beside LOCK IN SHARE MODE on the first",
				"a share lock excludes nothing on this engine: keep the marks in a MySQL or a MariaDB ("+engine.Page+")")
		}
	}
	return answer{}, err
}

// mysqlUnlocked returns the answer if err is a known reason for a shared lock that was not
// granted.
func mysqlUnlocked(err error) (answer, error) {
	switch number := engine.MySQLNumber(err); {
	case err == nil:
		return answer{}, nil
	case errors.Is(err, sql.ErrNoRows), number == mysqlNoTable, number == mysqlNoDatabase:
		return unknown("fencepost_floor has no row to lock", "fencepost migrate up --mysql; check that the DSN names the right database")
	case number == 0, number == mysqlDenied:
		return answer{}, err
	default:
		return fail("LOCK IN SHARE MODE: "+err.Error(), "this engine has no share locks: keep the marks in a MySQL or a MariaDB ("+engine.Page+")")
	}
}

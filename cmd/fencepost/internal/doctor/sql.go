package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/pgpooler"
	"github.com/fencepost/fencepost/migrations"
)

// Postgres is a server to be examined, and the schema in one of its databases.
type Postgres struct {
	Config *pgx.ConnConfig
	Schema string // "" means "fencepost"

	conn *pgx.Conn // of Examine
}

// postgresHidden is the fix if the role lacks a right.
const postgresHidden = "GRANT pg_monitor to this role, or ask the administrator of the server"

func (s *Postgres) checks() []check {
	return []check{
		{"role", "", "A standby cannot be written to, and its data may be old.", s.asks(Fail, "give the primary's URL, as with target_session_attrs=read-write",
			"SELECT 'pg_is_in_recovery() is ' || pg_is_in_recovery(), NOT pg_is_in_recovery()")},
		{"engine", "G28", "Some engines with PostgreSQL's protocol, and clusters with several writing nodes, do not fence. Guards refuse engines that are not known to fence.", s.engine},
		{"locks", "G28", "An admission takes a shared lock, for which a claim waits, and then reads the mark again. If locks exclude nothing, or a snapshot from before shows the old mark, two holders write at the same time.", s.locks},
		{"pooler", "P8", "A pooler in transaction mode gives each transaction another session: locks and settings of a session are lost, or shared.", s.pooler},
		{"fsync", "P3", "A crash of the machine restores older numbers and marks, or destroys them.", s.asks(Fail,
			"ALTER SYSTEM RESET fsync; ALTER SYSTEM RESET full_page_writes; SELECT pg_reload_conf()",
			"SELECT format('fsync is %s, full_page_writes is %s', f, p), f = 'on' AND p = 'on' FROM (SELECT current_setting('fsync'), current_setting('full_page_writes')) s (f, p)")},
		{"synchronous_commit", "G26", "A commit that does not wait may be lost after it was acknowledged. Grants and claims always wait; writes under them do not.", s.asks(Warn,
			"ALTER ROLE … SET synchronous_commit = on, or where it was set: ALTER DATABASE, ALTER SYSTEM, the URL",
			"SELECT format('synchronous_commit is %s in this session', c), c IN ('on', 'remote_apply') FROM current_setting('synchronous_commit') c")},
		{"standbys", "P6", "A promoted asynchronous standby lacks the last grants and marks.", s.standbys},
		{"evictions", "P9", "A successor ends the session of a paused writer of another role only if it may see that the session does not wait for a synchronous standby.", s.asks(Warn,
			"GRANT pg_read_all_stats TO this role",
			"SELECT format('member of pg_signal_backend: %s, of pg_read_all_stats: %s', e::text, s::text), s OR NOT e FROM (SELECT pg_has_role('pg_signal_backend', 'USAGE'), pg_has_role('pg_read_all_stats', 'USAGE')) r (e, s)")},
		{"schema", "P1, G10", "Without its tables, functions and rights a guard refuses everything, or nothing. With CACHE or CYCLE numbers fall. A crash empties an UNLOGGED table: tokens that were refused are admitted again.", s.tables},
		{"triggers", "G15", "With session_replication_role = replica the triggers of protected tables do not fire.", s.asks(Fail, "ALTER ROLE … RESET session_replication_role, or where it was set",
			"SELECT format('session_replication_role is %s in this session', r), r <> 'replica' FROM current_setting('session_replication_role') r")},
		{"clock", "R12", clockWhy, func(ctx context.Context) (answer, error) {
			return clock(ctx, 0, func(ctx context.Context) (at time.Time, err error) {
				err = s.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at)
				return at, err
			})
		}},
	}
}

// Examine makes all checks. It uses a transaction id, and changes nothing else. For a moment
// it has a second connection.
func (s Postgres) Examine(ctx context.Context) (*Report, error) {
	s.Config, s.Schema = s.Config.Copy(), cmp.Or(s.Schema, "fencepost")
	s.Config.DefaultQueryExecMode = pgx.QueryExecModeExec // every pooler supports it
	report := &Report{Server: fmt.Sprintf("postgres at %s:%d, database %s", s.Config.Host, s.Config.Port, s.Config.Database)}
	var err error
	if s.conn, err = pgx.ConnectConfig(ctx, s.Config); err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, err)
	}
	defer s.conn.Close(context.WithoutCancel(ctx))
	report.Server += ", schema " + s.Schema
	return report.examine(ctx, postgresHidden, s.checks())
}

// asks returns the look function of a check that is one query. Its row has the evidence, and
// whether nothing is wrong.
func (s *Postgres) asks(verdict Verdict, fix, query string) func(context.Context) (answer, error) {
	return func(ctx context.Context) (answer, error) {
		var evidence string
		var right bool
		if err := s.conn.QueryRow(ctx, query).Scan(&evidence, &right); err != nil {
			return answer{}, err
		}
		return judge(evidence, rule{!right, verdict, "", fix})
	}
}

// engine applies the rule that guards apply to each connection.
func (s *Postgres) engine(ctx context.Context) (answer, error) {
	var version, extensions string
	if err := s.conn.QueryRow(ctx, engine.PostgresQuery).Scan(&version, &extensions); err != nil {
		return answer{}, err
	}
	var refusal *engine.Error
	if errors.As(engine.CheckPostgres(version, extensions), &refusal) {
		return answer{Fail, refusal.Engine + " is not known to fence", refusal.Reason + " (" + engine.Page + ")"}, nil
	}
	return answer{Pass, version, ""}, nil
}

// second calls fn with a second connection.
func (s *Postgres) second(ctx context.Context, fn func(other *pgx.Conn) (answer, error)) (answer, error) {
	other, err := pgx.ConnectConfig(ctx, s.Config)
	if err != nil {
		return oneConnection(err), nil
	}
	defer other.Close(context.WithoutCancel(ctx))
	return fn(other)
}

// oneConnection is the answer of a check that got no second connection.
func oneConnection(err error) answer {
	return answer{Unknown, "this test needs a second connection: " + err.Error(), "allow this role two connections"}
}

func (s *Postgres) locks(ctx context.Context) (answer, error) {
	return s.second(ctx, func(other *pgx.Conn) (answer, error) {
		wrong, err := prove(ctx, s.conn, other, pgx.ReadCommitted)
		switch {
		case err != nil && isServerError(err):
			return answer{Unknown, err.Error(), "examine the primary, and see the other checks"}, nil
		case err != nil || wrong != "":
			return answer{Fail, wrong, "keep the marks in a PostgreSQL, or enable READ COMMITTED (YugabyteDB: yb_enable_read_committed_isolation); see " + engine.Page}, err
		}
		return answer{Pass, "a lock of one connection excludes the other, and ends with its transaction, whose next statement sees the other's commits", ""}, nil
	})
}

// prove takes the locks of an admission and of a claim on two connections, under a random key,
// and commits a transaction of b, which has an id and writes nothing, between two statements
// of a's. It returns what is wrong.
func prove(ctx context.Context, a, b *pgx.Conn, level pgx.TxIsoLevel) (wrong string, err error) {
	tx, err := a.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var alone, shared, sees, after bool
	var committed string
	key := rand.Int64()
	_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared($1::bigint)", key)
	if err == nil {
		err = b.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1::bigint), pg_try_advisory_xact_lock_shared($1), pg_current_xact_id()::text", key).Scan(&alone, &shared, &committed)
	}
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT pg_visible_in_snapshot($1::text::xid8, pg_current_snapshot())", committed).Scan(&sees)
	}
	if err == nil {
		err = tx.Rollback(ctx)
	}
	if err == nil {
		err = b.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1::bigint)", key).Scan(&after)
	}
	switch {
	case alone:
		wrong = "two connections have the same advisory lock at the same time"
	case !shared:
		wrong = "a shared advisory lock excludes another shared one"
	case !after:
		wrong = "an advisory lock of a transaction outlives the transaction"
	case !sees:
		wrong = "a READ COMMITTED transaction does not see commits after its first statement"
	}
	return wrong, err
}

// pooler compares the process id from the connection's start with the id of the process that
// answers: a pooler sends its own id at the start.
func (s *Postgres) pooler(ctx context.Context) (answer, error) {
	processOf := func(conn *pgx.Conn) pgpooler.Client {
		return func(ctx context.Context) (process int64, err error) {
			err = conn.QueryRow(ctx, pgpooler.Process).Scan(&process)
			return process, err
		}
	}
	process, err := processOf(s.conn)(ctx)
	if err != nil {
		return answer{}, err
	}
	announced := int64(s.conn.PgConn().PID())
	evidence := fmt.Sprintf("the connection announced process %d, and process %d answered", announced, process)
	if announced == process {
		return answer{Pass, evidence + ": none", ""}, nil
	}
	return s.second(ctx, func(other *pgx.Conn) (answer, error) {
		shared, err := pgpooler.Shared(ctx, processOf(s.conn), processOf(other))
		if err != nil {
			return answer{}, err
		}
		return judge(evidence, rule{!shared, Pass, ": a pooler that keeps the session", ""}, rule{shared, Warn, ": a pooler in transaction mode",
			"default_query_exec_mode=exec in the URL of pgx, or PgBouncer 1.21 with max_prepared_statements; " +
				"fencepost migrate, and an advisory lock that a session holds, need the server's own address"})
	})
}

// standbysSQL returns who follows physically: all of them, those that commits wait for, those
// of which this role may not see the state; and the names. Logical ones have a logical slot.
const standbysSQL = `
SELECT current_setting('synchronous_standby_names'), count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), count(*) FILTER (WHERE sync_state IS NULL),
       coalesce(': ' || string_agg(concat_ws(' ', nullif(application_name, ''), sync_state), ', ' ORDER BY application_name), '')
  FROM pg_stat_replication r
 WHERE NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')`

func (s *Postgres) standbys(ctx context.Context) (answer, error) {
	var names, who string
	var all, waited, unseen int
	if err := s.conn.QueryRow(ctx, standbysSQL).Scan(&names, &all, &waited, &unseen, &who); err != nil {
		return answer{}, err
	}
	return judge(fmt.Sprintf("synchronous_standby_names is %q, %d standbys follow%s", names, all, who),
		rule{unseen > 0, Unknown, ", whose state this role may not see", postgresHidden},
		rule{names != "" && waited == 0, Fail, ": every commit waits for a standby that is not connected", "start the standby, or ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()"},
		rule{waited < all, Warn, ": do not promote an asynchronous standby", "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf()"})
}

// tables reports what fencepost migrate check finds. The engine has a check of its own.
func (s *Postgres) tables(ctx context.Context) (answer, error) {
	db := stdlib.OpenDB(*s.Config)
	defer db.Close()
	var found *migrations.CheckError
	var refused *pgconn.ConnectError
	switch err := (migrations.Set{Schema: s.Schema, DangerouslyTrustEngine: true}).Check(ctx, db); {
	case err == nil:
		return answer{Pass, "it is complete for this version", ""}, nil
	case errors.As(err, &refused):
		return oneConnection(err), nil
	case !errors.As(err, &found):
		return answer{}, err
	}
	verdict, evidence, fixes := Fail, []string{}, []string{}
	for _, finding := range found.Findings {
		what, fix, _ := strings.Cut(finding, ": ")
		if evidence, fixes = append(evidence, what), append(fixes, fix); strings.Contains(what, " may not use schema ") {
			verdict = Unknown // another role may
		}
	}
	return answer{verdict, strings.Join(evidence, "; "), strings.Join(fixes, "; ")}, nil
}

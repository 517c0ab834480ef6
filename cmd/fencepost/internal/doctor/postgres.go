package doctor

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/migrations"
)

// Postgres is a server to be examined, and the schema in one of its databases.
type Postgres struct {
	Config *pgx.ConnConfig
	Schema string // "" means "fencepost"
}

// postgresServer is a server that has answered.
type postgresServer struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
	schema string
	found  *migrations.CheckError // by [migrations.Set.Check]; nil until it was called
}

// postgresHidden is the fix if the role lacks a right.
const postgresHidden = "GRANT pg_monitor to this role, or ask the administrator of the server"

//go:embed postgres_*.sql
var postgresSQL embed.FS

var postgresChecks = []check[*postgresServer]{
	{"role", "", "A standby cannot be written to, and its data may be old.", postgresRole},
	{"version", "", "The functions need PostgreSQL 13.", judged((*postgresServer).settings, postgresVersion, "server_version")},
	{"engine", "G28", "Some engines with PostgreSQL's protocol, and clusters with several writing nodes, do not fence. Guards refuse engines that are not known to fence.", postgresEngine},
	{"locks", "G28", "An admission takes a shared lock, and a claim waits for it. If locks exclude nothing, two holders write at the same time.", postgresLocks},
	{"read committed", "G28", "An admission reads the mark again after it has the lock. A snapshot from before would show the old mark.", postgresSnapshots},
	{"pooler", "P8", "A pooler in transaction mode gives each transaction another session: locks and settings of a session are lost, or shared.", postgresPooler},
	{"fsync", "P3", "A crash of the machine restores older numbers and marks, or destroys them.", judged((*postgresServer).settings, postgresFsync, "fsync", "full_page_writes")},
	{"synchronous_commit", "G26", "A commit that does not wait may be lost after it was acknowledged. Grants and claims always wait; writes under them do not.", judged((*postgresServer).settings, postgresCommit, "synchronous_commit")},
	{"evictions", "P9", "A successor ends the session of a paused writer of another role only if it may see that the session does not wait for a synchronous standby.", postgresEvictions},
	{"standbys", "P6", "A promoted asynchronous standby lacks the last grants and marks.", postgresStandbys},
	{"logical replication", "P6", "It copies rows and no sequences, and no guard checks the rows that it writes.", postgresLogical},
	{"schema", "", "Without its tables and functions a guard refuses everything, or nothing.", postgresSchema},
	{"sequences", "P1", "With CACHE, numbers fall from session to session. With CYCLE, a sequence starts again.", postgresSequences},
	{"unlogged tables", "G10", "A crash empties an UNLOGGED table: tokens that were refused are admitted again.", postgresUnlogged},
	{"triggers", "G15", "With session_replication_role = replica the triggers of protected tables do not fire.", judged((*postgresServer).settings, postgresTriggers, "session_replication_role")},
	{"autovacuum", "", "Rows of marks and leases are updated often: without vacuum the tables grow and slow down.", postgresVacuum},
	{"idle sessions", "P8", "A session that is ended because it is idle loses its LISTEN.", postgresIdle},
	{"connections", "", "A holder without a connection cannot renew, and loses its lease.", postgresRoom},
	{"clock", "R12", clockWhy, postgresClock},
}

// Examine makes all checks. It uses one transaction id, and changes nothing else. For a
// moment it has a second connection.
func (p Postgres) Examine(ctx context.Context) (*Report, error) {
	config := p.Config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // every pooler supports it
	report := &Report{Server: fmt.Sprintf("postgres at %s:%d, database %s", config.Host, config.Port, config.Database)}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	s := &postgresServer{config: config, conn: conn, schema: p.Schema}
	if s.schema == "" {
		s.schema = "fencepost"
	}
	report.Server += ", schema " + s.schema
	if report.Findings, err = examine(ctx, s, postgresHidden, postgresChecks); err != nil {
		return nil, fmt.Errorf("%s: %w", report.Server, err)
	}
	return report, nil
}

// settings returns settings of this session.
func (s *postgresServer) settings(ctx context.Context, names ...string) (values []string, evidence string, err error) {
	shown := make([]string, len(names))
	values = make([]string, len(names))
	for i, name := range names {
		if err := s.conn.QueryRow(ctx, "SELECT pg_catalog.current_setting($1)", name).Scan(&values[i]); err != nil {
			return nil, "", err
		}
		shown[i] = name + " is " + values[i]
	}
	return values, strings.Join(shown, ", "), nil
}

// queryFile runs the query of a file.
func (s *postgresServer) queryFile(ctx context.Context, file string, args []any, row ...any) error {
	text, err := postgresSQL.ReadFile(file)
	if err != nil {
		return err
	}
	return s.conn.QueryRow(ctx, strings.TrimSpace(string(text)), args...).Scan(row...)
}

func postgresRole(ctx context.Context, s *postgresServer) (answer, error) {
	var standby bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_catalog.pg_is_in_recovery()").Scan(&standby); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("pg_is_in_recovery() is %t", standby)
	if standby {
		return fail(evidence, "give the primary's URL, as with target_session_attrs=read-write")
	}
	return pass(evidence)
}

func postgresVersion(evidence string, values []string) (answer, error) {
	var major int
	if _, err := fmt.Sscanf(values[0], "%d", &major); err != nil {
		return answer{}, missingError(evidence)
	}
	if major < 13 {
		return fail(evidence, "upgrade the server")
	}
	return pass(evidence)
}

func postgresFsync(evidence string, values []string) (answer, error) {
	if values[0] != "on" || values[1] != "on" {
		return fail(evidence, "ALTER SYSTEM RESET fsync; ALTER SYSTEM RESET full_page_writes; SELECT pg_reload_conf()")
	}
	return pass(evidence)
}

func postgresCommit(evidence string, values []string) (answer, error) {
	evidence += " in this session"
	switch values[0] {
	case "on", "remote_apply":
		return pass(evidence)
	}
	return warn(evidence, "ALTER ROLE … SET synchronous_commit = on, or where it was set: ALTER DATABASE, ALTER SYSTEM, the URL")
}

func postgresTriggers(evidence string, values []string) (answer, error) {
	evidence += " in this session"
	if values[0] == "replica" {
		return fail(evidence, "ALTER ROLE … RESET session_replication_role, or where it was set")
	}
	return pass(evidence)
}

// idleLeast is shorter than the pauses of a healthy program.
const idleLeast = 5 * time.Minute

func postgresIdle(ctx context.Context, s *postgresServer) (answer, error) {
	var shown string
	var seconds float64
	if err := s.queryFile(ctx, "postgres_idle.sql", nil, &shown, &seconds); err != nil {
		return answer{}, err
	}
	evidence := "idle_session_timeout of this session is " + shown
	if seconds > 0 && seconds < idleLeast.Seconds() {
		return warn(evidence, "ALTER ROLE … SET idle_session_timeout = 0: pools and TCP keepalives end unused sessions")
	}
	return pass(evidence)
}

func postgresClock(ctx context.Context, s *postgresServer) (answer, error) {
	o, err := measure(ctx, func(ctx context.Context) (at time.Time, err error) {
		err = s.conn.QueryRow(ctx, "SELECT pg_catalog.clock_timestamp()").Scan(&at)
		return at, err
	})
	if err != nil {
		return answer{}, err
	}
	return o.judge()
}

func postgresEvictions(ctx context.Context, s *postgresServer) (answer, error) {
	var role string
	var ends, sees bool
	err := s.conn.QueryRow(ctx, "SELECT pg_catalog.quote_ident(current_user), pg_catalog.pg_has_role('pg_signal_backend', 'USAGE'), pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')").Scan(&role, &ends, &sees)
	if err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("member of pg_signal_backend: %t, of pg_read_all_stats: %t", ends, sees)
	if ends && !sees {
		return warn(evidence, "GRANT pg_read_all_stats TO "+role)
	}
	return pass(evidence)
}

func postgresStandbys(ctx context.Context, s *postgresServer) (answer, error) {
	var names, who string
	var all, waited, unseen int
	if err := s.queryFile(ctx, "postgres_standbys.sql", nil, &names, &all, &waited, &unseen, &who); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("synchronous_standby_names is %q, %d standbys follow", names, all)
	if who != "" {
		evidence += ": " + who
	}
	switch {
	case unseen > 0:
		return unknown(evidence+", whose state this role may not see", postgresHidden)
	case names != "" && waited == 0:
		return fail(evidence+": every commit waits for a standby that is not connected", "start the standby, or ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
	case waited < all:
		return warn(evidence+": do not promote an asynchronous standby", "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf()")
	case all == 0:
		return pass(evidence + ": there is none to promote")
	}
	return pass(evidence)
}

func postgresLogical(ctx context.Context, s *postgresServer) (answer, error) {
	var publications, subscribed string
	if err := s.queryFile(ctx, "postgres_logical.sql", []any{s.schema}, &publications, &subscribed); err != nil {
		return answer{}, err
	}
	if subscribed != "" {
		return fail("a subscription writes into "+s.schema+": "+subscribed, "remove the schema from the publication, then ALTER SUBSCRIPTION … REFRESH PUBLICATION")
	}
	if publications != "" {
		return warn("published with tables of "+s.schema+": "+publications,
			"remove the schema's tables (ALTER PUBLICATION … DROP TABLE); before you move the database, stop the writers")
	}
	return pass("no publication and no subscription has a table of " + s.schema)
}

func postgresVacuum(ctx context.Context, s *postgresServer) (answer, error) {
	var on, counts, left string
	if err := s.queryFile(ctx, "postgres_vacuum.sql", []any{s.schema}, &on, &counts, &left); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("autovacuum is %s, track_counts is %s", on, counts)
	switch {
	case left != "":
		return warn(evidence+", and skips "+left, "ALTER TABLE … RESET (autovacuum_enabled)")
	case on != "on" || counts != "on":
		return warn(evidence, "ALTER SYSTEM RESET autovacuum; ALTER SYSTEM RESET track_counts; SELECT pg_reload_conf()")
	}
	return pass(evidence)
}

func postgresRoom(ctx context.Context, s *postgresServer) (answer, error) {
	var most, used int
	if err := s.queryFile(ctx, "postgres_room.sql", nil, &most, &used); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("%d of %d connections are used", used, most)
	if float64(used) > full*float64(most) {
		return warn(evidence, "ALTER SYSTEM SET max_connections, and restart; or smaller pools")
	}
	return pass(evidence)
}

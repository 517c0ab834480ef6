package doctor

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Postgres is a server to be examined, and the schema in one of its databases.
type Postgres struct {
	Config *pgx.ConnConfig
	Schema string // "fencepost" where it is empty
}

// postgresServer is one that has answered.
type postgresServer struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
	schema string
}

// postgresHidden is the cure for what a PostgreSQL does not tell.
const postgresHidden = "GRANT pg_monitor to this role, or ask whoever runs the server"

//go:embed postgres_*.sql
var postgresSQL embed.FS

var postgresChecks = []check[*postgresServer]{
	{"role", "", "A standby cannot be written to, and what it says may be of yesterday.", postgresRole},
	{"version", "", "The functions need PostgreSQL 13, and pgtoken.Advisory 14.", postgresVersion},
	{"pooler", "P8", "A pooler in transaction mode gives each transaction another session: what belongs to one is lost, or shared.", postgresPooler},
	{"fsync", "P3", "A crash of the machine brings back numbers and marks of before, or destroys them.", postgresFsync},
	{"synchronous_commit", "G26", "A commit that does not wait may be lost after it was acknowledged. Grants and claims wait in any case; what is written under them does not.", postgresCommit},
	{"standbys", "P6", "An asynchronous standby that is promoted has not seen the last grants and marks.", postgresStandbys},
	{"logical replication", "P6", "It carries rows, not sequences; and rows that it writes are compared with nothing.", postgresLogical},
	{"schema", "", "A guard without its tables and functions refuses everything, or nothing.", postgresSchema},
	{"sequences", "P1", "A sequence with CACHE falls from session to session, one with CYCLE begins again.", postgresSequences},
	{"unlogged tables", "G10", "A crash empties a table that is UNLOGGED: what was refused is admitted again.", postgresUnlogged},
	{"triggers", "G15", "With session_replication_role = replica the triggers of protected tables do not fire.", postgresTriggers},
	{"autovacuum", "", "Rows of marks and leases are updated in place all the time: without vacuum they grow and slow down.", postgresVacuum},
	{"idle sessions", "P8", "A session that is ended for being idle loses what it listens to.", postgresIdle},
	{"connections", "", "Who gets no connection cannot renew, and loses its lease.", postgresRoom},
	{"clock", "R12", clockWhy, postgresClock},
}

// Examine makes all checks. It changes nothing; for a moment it has a second
// connection.
func (p Postgres) Examine(ctx context.Context) (*Report, error) {
	config := p.Config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // which every pooler lets through
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

// setting returns a setting of this session.
func (s *postgresServer) setting(ctx context.Context, name string) (value string, err error) {
	err = s.conn.QueryRow(ctx, "SELECT pg_catalog.current_setting($1)", name).Scan(&value)
	return value, err
}

// ask runs the query of a file.
func (s *postgresServer) ask(ctx context.Context, file string, args []any, row ...any) error {
	text, err := postgresSQL.ReadFile(file)
	if err != nil {
		return err
	}
	return s.conn.QueryRow(ctx, strings.TrimSpace(string(text)), args...).Scan(row...)
}

package connect

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed" // the statement
	"errors"
	"fmt"
	"os"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/engine"
)

// Database has the flags of the commands that work in one database, of either kind.
type Database struct {
	Postgres string `server:"one" placeholder:"URL" env:"FENCEPOST_POSTGRES_URL" help:"A PostgreSQL database, as postgres://user@host/shop. Every user of this machine can read a password in a flag: use the variable or ~/.pgpass instead."`
	MySQL    string `server:"one" name:"mysql" placeholder:"DSN" env:"FENCEPOST_MYSQL_DSN" help:"A MySQL or MariaDB database, as user@tcp(host:3306)/shop. Use the variable for a DSN with a password."`
	Schema   string `placeholder:"NAME" env:"FENCEPOST_SCHEMA" help:"The schema in PostgreSQL, by default fencepost."`

	DangerouslyTrustEngine bool `help:"Skip the check of the engine. You vouch that it fences as PostgreSQL or MySQL does, or that only one node of a cluster is written to."`
}

// Server is the database that the flags name.
type Server struct {
	Dialect  engine.Dialect
	Schema   string // PostgreSQL's; empty on MySQL
	Database string
	Address  string

	// Open returns a pool, if the server answers within [Timeout].
	Open func(ctx context.Context) (*sql.DB, error)
}

// Server parses the flags, of which one names a database. application is the name that the
// server shows for the session.
func (d *Database) Server(application string) (*Server, error) {
	switch {
	case d.MySQL == "":
		return postgresServer(d.Postgres, cmp.Or(d.Schema, "fencepost"), application)
	case d.Schema != "" && d.Schema != os.Getenv("FENCEPOST_SCHEMA"):
		return nil, errors.New("--schema is for PostgreSQL: on MySQL the DSN names the database")
	}
	return mysqlServer(d.MySQL, application)
}

// Use connects, and calls fn with a context that a signal ends.
func (d *Database) Use(application string, fn func(ctx context.Context, server *Server, pool *sql.DB) error) error {
	server, err := d.Server(application)
	if err != nil {
		return err
	}
	ctx, done := cli.UntilSignal(context.Background())
	defer done()
	pool, err := server.Open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	return WithCause(ctx, fn(ctx, server, pool))
}

func postgresServer(url, schema, application string) (*Server, error) {
	config, err := PostgresConfig(url, application)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // every pooler supports it
	_, address := pgconn.NetworkAddress(config.Host, config.Port)
	return &Server{engine.Postgres, schema, config.Database, address, func(ctx context.Context) (*sql.DB, error) {
		return PostgresDB(ctx, config)
	}}, nil
}

// mysqlServer returns an error for a DSN that cannot be parsed. The driver's own would quote a
// password. The driver logs nothing: it returns its errors too.
func mysqlServer(dsn, application string) (*Server, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("mysql: not a DSN that can be read, as user@tcp(host:3306)/database")
	}
	if config.DBName == "" {
		return nil, errors.New("mysql: the DSN names no database, as in user@tcp(host:3306)/shop")
	}
	config.Logger = &mysql.NopLogger{}
	config.Timeout = cmp.Or(config.Timeout, Timeout)
	config.ConnectionAttributes = cmp.Or(config.ConnectionAttributes, "program_name:"+application)
	return &Server{engine.MySQL, "", config.DBName, config.Addr, func(ctx context.Context) (*sql.DB, error) {
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, fmt.Errorf("mysql cannot be used: %w", err)
		}
		return answering(ctx, sql.OpenDB(connector), fmt.Sprintf("mysql at %s, database %s", config.Addr, config.DBName))
	}}, nil
}

// Name is the name of what Fencepost's tables are in: the schema on PostgreSQL, the database
// on MySQL.
func (s *Server) Name() string { return cmp.Or(s.Schema, s.Database) }

// String names the same for a message, as in `schema "fencepost"`.
func (s *Server) String() string {
	if s.Dialect == engine.MySQL {
		return "database " + engine.MySQLIdent(s.Database)
	}
	return "schema " + pgx.Identifier{s.Schema}.Sanitize()
}

// CheckEngine returns an [*engine.Error] if the engine is not known to fence.
func (s *Server) CheckEngine(ctx context.Context, conn *sql.Conn) error {
	if s.Dialect == engine.MySQL {
		variables, err := engine.AskMySQL(ctx, conn)
		if err != nil {
			return err
		}
		return engine.CheckMySQL(variables)
	}
	var version, extensions string
	if err := conn.QueryRowContext(ctx, engine.PostgresQuery).Scan(&version, &extensions); err != nil {
		return err
	}
	return engine.CheckPostgres(version, extensions)
}

// Rights are what a command needs: on PostgreSQL, to read tables of the schema and to call
// functions, with their types; on MySQL, rights on tables.
type Rights struct {
	Tables, Functions []string
	MySQL             []engine.TableRights
}

// grantSQL selects the GRANTs that a role lacks.
//
//go:embed grant.sql
var grantSQL string

// MissingGrant adds to err the GRANTs of what a command needs, if the server has denied a
// right: on PostgreSQL those that the role lacks, on MySQL all.
func (s *Server) MissingGrant(ctx context.Context, err error, from engine.Rower, needs Rights) error {
	var pg *pgconn.PgError
	var missing string
	var failed error
	switch {
	case errors.As(err, &pg) && pg.Code == "42501": // insufficient_privilege
		failed = from.QueryRowContext(ctx, grantSQL, s.Schema, needs.Tables, needs.Functions).Scan(&missing)
	case engine.MySQLDenied(err):
		missing, failed = engine.MySQLGrants(ctx, from, needs.MySQL...)
	}
	if failed != nil || missing == "" {
		return err
	}
	return fmt.Errorf("%w: a right is missing: %s", err, missing)
}

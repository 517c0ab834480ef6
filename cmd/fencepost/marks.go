package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// marksCmd has what its commands share.
type marksCmd struct {
	Postgres string `placeholder:"URL" env:"FENCEPOST_POSTGRES_URL" help:"The database. Every user of this machine can read a password that stands in a flag: set the variable instead, or keep it in ~/.pgpass."`
	Schema   string `default:"fencepost" placeholder:"NAME" help:"The schema, if it is not called fencepost."`

	List  marksListCmd  `cmd:"" help:"List marks, the highest number first."`
	Show  marksShowCmd  `cmd:"" help:"Show a resource's mark, the floor, and who is admitted or waits."`
	Prune marksPruneCmd `cmd:"" help:"Delete old marks, and raise the floor over them."`
	Reset marksResetCmd `cmd:"" help:"Lower a poisoned mark: the last resort."`
}

// Help is what --help says besides the flags.
func (marksCmd) Help() string {
	return `A mark is the highest token that was admitted for a resource; what is below it is stale. Resources without a mark are judged by ` +
		`the floor. The role needs USAGE on the schema, SELECT on its tables marks and floor, and EXECUTE on its functions prune and reset ` +
		`for these commands; pg_read_all_stats shows what other roles' sessions do.`
}

// marksSQL has the statements, with "fencepost" where the schema goes.
//
//go:embed marks_*.sql
var marksSQL embed.FS

// marks is a connection to the database that has them.
type marks struct {
	*pgx.Conn
	schema string
}

// errNoMark has been told already.
var errNoMark = fmt.Errorf("the resource has no mark: %w", errNo)

// use connects, and has fn work until it is done or a signal comes. calls is the
// function that needs a right of its own, with its types, or empty.
func (m *marksCmd) use(calls string, fn func(ctx context.Context, db *marks) error) error {
	if m.Postgres == "" { // kong would ask for it before it asks for a command
		return errors.New("marks: no URL: give --postgres=URL, or set FENCEPOST_POSTGRES_URL")
	}
	config, err := postgresConfig(m.Postgres, "fencepost marks")
	if err != nil {
		return err
	}
	ctx, done := untilSignal(context.Background())
	defer done()
	conn, err := connect(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = lacking(fn(ctx, &marks{conn, m.Schema}), func(missing *string) error {
		return conn.QueryRow(ctx, rightsSQL, m.Schema, []string{"marks", "floor"}, calls).Scan(missing)
	})
	return m.explain(becauseOf(ctx, err))
}

func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reach, errors.New("no answer within "+reach.String()))
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres cannot be used: %w", becauseOf(ctx, err))
	}
	return conn, nil
}

// becauseOf names what ended the context of what failed.
func becauseOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// explain says what is missing in a database that is not migrated.
func (m *marksCmd) explain(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "3F000", "42P01", "42883": // no such schema, table, function
			return fmt.Errorf("marks: schema %s lacks what the migrations make: run fencepost migrate up: %w", pgx.Identifier{m.Schema}.Sanitize(), err)
		}
	}
	return err
}

// sql returns the text of a file, for this schema.
func (db *marks) sql(file string) string {
	text, err := marksSQL.ReadFile(file)
	if err != nil {
		panic(err) // it is part of the program
	}
	return strings.ReplaceAll(string(text), `"fencepost"`, pgx.Identifier{db.schema}.Sanitize())
}

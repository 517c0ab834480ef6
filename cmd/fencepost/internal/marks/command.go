// Package marks is the command fencepost marks: it lists, shows, prunes and resets the
// marks of a PostgreSQL, MySQL or MariaDB database. read.go has list and show, change.go has
// prune and reset.
package marks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/engine"
)

// Cmd is the command fencepost marks, with the flags that its commands share.
type Cmd struct {
	connect.Database

	List  listCmd  `cmd:"" help:"List marks."`
	Show  showCmd  `cmd:"" help:"Show a resource's mark, the floor, and on PostgreSQL the sessions that write under the mark or wait."`
	Prune pruneCmd `cmd:"" help:"Delete old marks, raise the floor to their cutoff, and delete expired units of Once."`
	Reset resetCmd `cmd:"" help:"Lower a mark that a forged token has raised: the last resort."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `A mark is the highest token that was admitted for a resource: lower tokens are stale. For a resource without a mark, tokens below ` +
		`the floor are stale. If a right is missing, the error has its GRANT. With pg_read_all_stats, show has the sessions of other roles too.

Examples:
  fencepost marks list --postgres postgres://operator@db/shop --highest
  FENCEPOST_MYSQL_DSN='operator:secret@tcp(db:3306)/shop' fencepost marks prune --older-than 30d`
}

// rights are what a command needs. A command that needs functions changes marks.
func rights(functions []string, onMarks, onFloor string, more ...engine.TableRights) connect.Rights {
	mysql := append([]engine.TableRights{{Table: "fencepost_marks", Rights: onMarks}, {Table: "fencepost_floor", Rights: onFloor}}, more...)
	return connect.Rights{Tables: []string{"marks", "floor"}, Functions: functions, MySQL: mysql}
}

// database is a session of a server.
type database struct {
	*sql.Conn
	schema string            // PostgreSQL's, quoted; empty on MySQL
	names  *strings.Replacer // in statements: the tables, the clock as a number, placeholders
}

func newDatabase(conn *sql.Conn, server *connect.Server) *database {
	if server.Dialect == engine.MySQL {
		return &database{conn, "", strings.NewReplacer("{marks}", "fencepost_marks", "{floor}", "fencepost_floor", "$1", "?", "$2", "?",
			"{clock}", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10")}
	}
	schema := pgx.Identifier{server.Schema}.Sanitize()
	return &database{conn, schema, strings.NewReplacer("{schema}", schema, "{marks}", schema+".marks", "{floor}", schema+".floor",
		"{clock}", schema+".number_at(clock_timestamp())")}
}

// withDatabase connects, and calls fn with a context that a signal ends. An engine that is not
// known to fence is refused before a command that changes marks.
func (m *Cmd) withDatabase(needs connect.Rights, fn func(ctx context.Context, db *database) error) error {
	return m.Use("fencepost marks", func(ctx context.Context, server *connect.Server, pool *sql.DB) error {
		conn, err := pool.Conn(ctx) // settings of the session are made on it
		if err != nil {
			return err
		}
		defer conn.Close()
		if needs.Functions != nil && !m.DangerouslyTrustEngine {
			err = server.CheckEngine(ctx, conn)
		}
		if err == nil {
			err = fn(ctx, newDatabase(conn, server))
		}
		return connect.NotMigrated(server.Schema, server.MissingGrant(ctx, err, conn, needs))
	})
}

// row reads one row. If there is none, the floor is missing.
func (db *database) row(ctx context.Context, text string, args []any, into ...any) error {
	err := db.QueryRowContext(ctx, db.names.Replace(text), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return errors.New("marks: the floor has no row, so every token of a resource without a mark is refused: restore it from a backup")
	}
	return err
}

// each reads rows, and calls fn for each of them.
func (db *database) each(ctx context.Context, text string, args []any, fn func(row *sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, db.names.Replace(text), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Number is the number of a token, of a mark or of the floor: a time in units of 10 µs
// since 1970, because every issuer of Fencepost draws numbers from a clock. In JSON it is a
// string, because some readers of JSON round integers.
type Number int64

const unit = 10 * time.Microsecond

// Time returns the time that n counts.
func (n Number) Time() time.Time { return time.UnixMicro(int64(n) * unit.Microseconds()).UTC() }

// Date returns Time in UTC, as text.
func (n Number) Date() string { return n.Time().Format("2006-01-02T15:04:05.00Z07:00") }

// Age returns the distance from the server's clock, as 1h2m3.4s ago, or 12d ahead.
func (n Number) Age(clock Number) string {
	if n > clock {
		return Span(time.Duration(n-clock)*unit) + " ahead"
	}
	return Span(time.Duration(clock-n)*unit) + " ago"
}

// Span writes a duration as 1h2m3.4s, or in days.
func Span(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.Round(100 * time.Millisecond).String()
}

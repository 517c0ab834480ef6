// Package marks is the command fencepost marks: it lists, shows, prunes and resets the
// marks of a PostgreSQL, MySQL or MariaDB database.
//
//	command.go   the flags that the commands share; the connection; an engine that is not known
//	             to fence is refused before prune and reset
//	list.go      the order, the prefix and the limit; how many marks are read at a time; the
//	             count after the last mark; marks above the server's clock are yellow
//	show.go      the mark of a resource, the floor, the sessions that write or wait; exit status
//	             1 without a mark; "the floor has no row"; a mark above the clock
//	prune.go     the cutoff; less than 24h needs --dangerously-young; --dry-run; how many marks
//	             are deleted, and how many are kept because their resources were busy; units
//	reset.go     which new numbers are refused: below the floor, more than a day ahead; a mark
//	             that issuers reach needs --number; the name that the user types, or --confirm
//	number.go    a number as a time, a date and an age; flags that are whole numbers above 0
//	database.go  what differs between PostgreSQL and MySQL; the statements are embedded, and run
//	             by the names of their files
//	postgres.go  prune in batches, and reset, by functions of the schema; "a writer is still
//	             admitted"; text about rows with their own mark; a missing GRANT
//	mysql.go     prune and reset by row locks: the floor first, busy marks skipped, "the floor
//	             is busy"; the holder of a reset mark; literals; a missing GRANT
//	sql/         the statements, a folder for each kind of database; a file for each step, as
//	             prune_floor.sql, reset_mark.sql, sessions.sql
package marks

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
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
		`the floor are stale.

On PostgreSQL the role needs USAGE on the schema, SELECT on its tables marks and floor, and for prune and reset EXECUTE on the function of ` +
		`that name; prune also on prune_units. With pg_read_all_stats, show has the sessions of other roles too. On MySQL the account needs SELECT on fencepost_marks and ` +
		`fencepost_floor; prune also DELETE on the first, UPDATE on the second, and SELECT and DELETE on fencepost_units; reset UPDATE on the first.

Examples:
  fencepost marks list --postgres postgres://operator@db/shop --highest
  FENCEPOST_MYSQL_DSN='operator:secret@tcp(db:3306)/shop' fencepost marks prune --older-than 30d`
}

// errNoMark is not printed: show has printed that there is no mark.
var errNoMark = fmt.Errorf("the resource has no mark: %w", cli.ErrNo)

// access is what a command does to the marks. Rights depend on it.
type access int

const (
	reads access = iota
	prunes
	resets
)

// withDatabase connects, and calls fn with a context that a signal ends. If fn changes
// marks, an engine that is not known to fence is refused first.
func (m *Cmd) withDatabase(a access, fn func(ctx context.Context, db *database) error) error {
	server, err := m.Server("fencepost marks")
	if err != nil {
		return fmt.Errorf("marks: %w", err)
	}
	ctx, done := cli.UntilSignal(context.Background())
	defer done()
	pool, err := server.Open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := pool.Conn(ctx) // settings of the session are made on it
	if err != nil {
		return connect.WithCause(ctx, err)
	}
	defer conn.Close()
	db := &database{Conn: conn, dialect: &postgres{schema: server.Schema}}
	if server.Dialect == engine.MySQL {
		db.dialect = mysql{}
	}
	if a != reads && !m.DangerouslyTrustEngine {
		err = db.fences(ctx, conn)
	}
	if err == nil {
		err = fn(ctx, db)
	}
	return db.explain(ctx, db, a, connect.WithCause(ctx, err))
}

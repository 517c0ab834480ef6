// Package marks is the command fencepost marks: it lists, shows, prunes and resets the
// marks of a PostgreSQL, MySQL or MariaDB database.
//
//	command.go     the flags, and the connection
//	database.go    what differs between the kinds of databases; postgres.go and mysql.go
//	list.go, show.go, prune.go, reset.go   the commands
//	number.go      numbers as times
//	sql/           the statements, a folder for each kind of database
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
	Prune pruneCmd `cmd:"" help:"Delete old marks, and raise the floor to their cutoff."`
	Reset resetCmd `cmd:"" help:"Lower a mark that a forged token has raised: the last resort."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `A mark is the highest token that was admitted for a resource: lower tokens are stale. For a resource without a mark, tokens below ` +
		`the floor are stale.

On PostgreSQL the role needs USAGE on the schema, SELECT on its tables marks and floor, and for prune and reset EXECUTE on the function of ` +
		`that name. With pg_read_all_stats, show has the sessions of other roles too. On MySQL the account needs SELECT on fencepost_marks and ` +
		`fencepost_floor; prune also DELETE on the first and UPDATE on the second, and reset UPDATE on the first.

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

package marks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/pgadmit"
)

// postgres calls the functions of the schema, which take the locks.
type postgres struct{ schema string }

func (p *postgres) ident() string { return pgx.Identifier{p.schema}.Sanitize() }

// statement puts the schema in place of "fencepost".
func (p *postgres) statement(name string, args ...any) (string, []any) {
	return strings.ReplaceAll(file("postgres/"+name), `"fencepost"`, p.ident()), args
}

func (*postgres) fences(ctx context.Context, conn *sql.Conn) error {
	var version, extensions string
	if err := conn.QueryRowContext(ctx, engine.PostgresQuery).Scan(&version, &extensions); err != nil {
		return err
	}
	return engine.CheckPostgres(version, extensions)
}

func (*postgres) sessions(ctx context.Context, db *database, resource string) ([]session, error) {
	rows, err := db.rows(ctx, "sessions.sql", resource)
	return collect(rows, err, func(row *sql.Rows) (s session, err error) {
		err = row.Scan(&s.PID, &s.Mode, &s.Granted, &s.Role, &s.Application, &s.State, &s.Since, &s.seconds)
		return s, err
	})
}

func (*postgres) prune(ctx context.Context, db *database, cutoff number) (rows int, err error) {
	for batch := 1; batch > 0; rows += batch {
		if err := db.row(ctx, "prune_batch.sql", []any{int64(cutoff)}, &batch); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func (*postgres) pruneUnits(ctx context.Context, db *database) (units int, err error) {
	for batch := 1; batch > 0; units += batch {
		if err := db.row(ctx, "prune_units.sql", nil, &batch); err != nil {
			return units, err
		}
	}
	return units, nil
}

func (*postgres) reset(ctx context.Context, db *database, c *resetCmd) (fresh number, err error) {
	if _, err := db.ExecContext(ctx, "SELECT set_config('lock_timeout', $1, false)", fmt.Sprint(c.Wait.Milliseconds())); err != nil {
		return 0, err
	}
	var n sql.NullInt64
	if c.Number != nil {
		n = sql.NullInt64{Int64: int64(*c.Number), Valid: true}
	}
	err = db.row(ctx, "reset.sql", []any{c.Resource, n}, &fresh)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == pgadmit.LockTimeout {
		return 0, fmt.Errorf("marks: a writer is still admitted for %s, see fencepost marks show: %w", cli.Visible(c.Resource), err)
	}
	return fresh, err
}

func (p *postgres) afterReset(c *resetCmd, fresh number) string {
	text := fresh.String()
	if c.Number == nil {
		text = p.ident() + ".number_at(now())"
	}
	return fmt.Sprintf("The server's log has the old mark.\n"+
		"A row with its own mark (rowguard.Table) keeps it. Lower it too: UPDATE … SET last_token = %s, last_holder = 'reset', "+
		"after SELECT %s.bypass(…) in the same transaction if the table is protected.\n", text, p.ident())
}

func (p *postgres) explain(ctx context.Context, db *database, a access, err error) error {
	calls := [...][]string{reads: {}, prunes: {"prune(bigint, integer)", "prune_units(integer)"}, resets: {"reset(text, bigint)"}}[a]
	err = connect.MissingGrant(err, func(missing *string) error {
		return db.QueryRowContext(ctx, connect.GrantSQL, p.schema, []string{"marks", "floor"}, calls).Scan(missing)
	})
	return connect.NotMigrated(p.schema, err)
}

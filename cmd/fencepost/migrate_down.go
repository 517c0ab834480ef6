package main

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/migrations"
)

type migrateDownCmd struct {
	migrateTarget

	Confirm string `placeholder:"NAME" help:"The schema's name once more, instead of typing it."`
}

// Run is called by kong. A signal that comes while somebody types ends the
// program as it always does.
func (c *migrateDownCmd) Run(std streams) error {
	if err := c.confirm(std); err != nil {
		return err
	}
	return c.use(func(ctx context.Context, db *sql.DB) error {
		lines, _, err := c.changed(ctx, db, migrations.Set.Down)
		slices.Reverse(lines) // as they went
		nothing := "nothing to remove: no migration was applied in schema " + c.schema()
		if err != nil {
			nothing = ""
		}
		return cmp.Or(err, c.tell(std.out, lines, "is gone", nothing))
	})
}

func (c *migrateDownCmd) confirm(std streams) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	name, typed := c.named(), c.Confirm
	if typed == "" {
		_, address := pgconn.NetworkAddress(config.Host, config.Port)
		fmt.Fprintf(std.err, "This empties schema %s of database %s at %s.\n"+
			"It forgets all marks: what was refused before would be admitted again. Stop all writers first.\n"+
			"Type the schema's name to go on: ", c.schema(), pgx.Identifier{config.Database}.Sanitize(), address)
		typed = typedLine(std)
	}
	if typed != name {
		return fmt.Errorf("nothing was changed: %q is not the schema's name, %s", typed, c.schema())
	}
	return nil
}

// typedLine is a line without its end, or what there is when the input ends,
// where nobody has ended the prompt's line.
func typedLine(std streams) string {
	line, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(std.err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}

package main

import (
	"fmt"
	"os/signal"
	"syscall"

	"github.com/fencepost/fencepost/migrations"
)

type migratePrintCmd struct {
	Dialect string `default:"postgres" enum:"postgres,mysql,sqlite" help:"Of which database: postgres, mysql (also MariaDB) or sqlite."`
	Schema  string `placeholder:"NAME" help:"The PostgreSQL schema, if it is not called fencepost."`

	Postgres string `placeholder:"URL" help:"Is not used, and no server is asked: the other verbs have it."`
}

// Help is what --help says besides the flags.
func (migratePrintCmd) Help() string {
	return "For psql --single-transaction and other tools, on a database that has nothing of it yet. The script keeps no versions: " +
		"up and down refuse what it made, status says that it is not theirs, check works."
}

// Run is called by kong.
func (c *migratePrintCmd) Run(std streams) error {
	set := migrations.Set{Schema: c.Schema}
	for _, d := range []migrations.Dialect{migrations.Postgres, migrations.MySQL, migrations.SQLite} {
		if d.String() == c.Dialect {
			set.Dialect = d
		}
	}
	script, err := set.SQL()
	if err != nil {
		return err
	}
	signal.Reset(syscall.SIGPIPE) // there is nothing to remove
	_, err = fmt.Fprint(std.out, script)
	return err
}

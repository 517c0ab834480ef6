package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/fencepost/fencepost/migrations"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is missing."`
	Down   migrateDownCmd   `cmd:"" help:"Remove everything, and forget all marks: what was refused before would be admitted again."`
	Status migrateStatusCmd `cmd:"" help:"List what is applied, and what is wrong. Exit status 1: something is."`
	Check  migrateCheckCmd  `cmd:"" help:"List what is wrong, as a program's own role sees it. Exit status 1: something is."`
	Print  migratePrintCmd  `cmd:"" help:"Print the migrations as an SQL script. Needs no database."`
}

// Help is what --help says besides the flags.
func (migrateCmd) Help() string {
	return "Tables and functions of Fencepost in a PostgreSQL database. Programs can do the same with package migrations."
}

// errUnfit has been told already, by the findings.
var errUnfit = fmt.Errorf("the database is not fit: %w", errNo)

// migration is one line of output.
type migration struct {
	Version   int64      `json:"version"`
	File      string     `json:"file"`
	AppliedAt *time.Time `json:"applied_at"`
}

func newMigration(m migrations.Migration) migration {
	line := migration{Version: m.Version, File: m.File}
	if !m.AppliedAt.IsZero() {
		line.AppliedAt = &m.AppliedAt
	}
	return line
}

// name is that of the file, where this library has it.
func (m migration) name() string {
	if m.File == "" {
		return fmt.Sprintf("%05d (of a newer version)", m.Version)
	}
	return m.File
}

// say writes text, or with --json value.
func (t *migrateTarget) say(out io.Writer, value any, text string) error {
	if t.JSON {
		return json.NewEncoder(out).Encode(value)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// changed does the work, and returns the migrations that are there now and were
// not, or the other way round, also where it came to an error; and the version
// that the database is at. Another process may have done it: whoever waits for
// its lock finds the work done.
func (t *migrateTarget) changed(ctx context.Context, db *sql.DB, work func(migrations.Set, context.Context, *sql.DB) error) (
	lines []migration, version int64, err error) {
	before, err := t.set().Status(ctx, db)
	if err != nil {
		return nil, 0, err
	}
	was := map[int64]bool{}
	for _, m := range before {
		was[m.Version] = !m.AppliedAt.IsZero()
	}
	failed := work(t.set(), ctx, db)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reach)
	defer cancel()
	after, err := t.set().Status(ctx, db)
	for _, m := range after {
		if !m.AppliedAt.IsZero() {
			version = m.Version
		}
		if line := newMigration(m); was[m.Version] != (line.AppliedAt != nil) {
			lines = append(lines, line)
		}
	}
	if failed != nil {
		err = failed
	}
	return lines, version, err
}

// tell prints what has become of migrations, or nothing where there are none and
// a program reads: it wants lines of one kind.
func (t *migrateTarget) tell(out io.Writer, lines []migration, become, nothing string) error {
	for _, line := range lines {
		if err := t.say(out, line, line.name()+" "+become); err != nil {
			return err
		}
	}
	if len(lines) > 0 || t.JSON || nothing == "" {
		return nil
	}
	_, err := fmt.Fprintln(out, nothing)
	return err
}

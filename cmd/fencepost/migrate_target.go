package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/migrations"
)

// migrateTarget is the database that a command works in.
type migrateTarget struct {
	Postgres string `required:"" placeholder:"URL" env:"FENCEPOST_POSTGRES_URL" help:"The database. Every user of this machine can read a password that stands in a flag: set the variable instead, or keep it in ~/.pgpass."`
	Schema   string `placeholder:"NAME" help:"The schema, if it is not called fencepost."`
	JSON     bool   `name:"json" help:"Print one JSON object a line instead."`
}

func (t *migrateTarget) set() migrations.Set { return migrations.Set{Schema: t.Schema} }

func (t *migrateTarget) named() string { return cmp.Or(t.Schema, "fencepost") }

// schema is its name as SQL has it.
func (t *migrateTarget) schema() string { return pgx.Identifier{t.named()}.Sanitize() }

// reach bounds the first answer of a server.
const reach = 5 * time.Second

func (t *migrateTarget) config() (*pgx.ConnConfig, error) {
	return postgresConfig(t.Postgres, "fencepost migrate")
}

// postgresConfig reads the URL for the application.
func postgresConfig(url, application string) (*pgx.ConnConfig, error) {
	if url == "" { // a variable that was not set: pgx would look for a server by itself
		return nil, errors.New("postgres: the URL is empty")
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, unreadable("postgres: neither a postgres:// URL nor keyword=value pairs")
	}
	introduce(config, application)
	return config, nil
}

// introduce tells the server who asks, unless the URL does.
func introduce(config *pgx.ConnConfig, application string) {
	if _, given := config.RuntimeParams["application_name"]; !given {
		config.RuntimeParams["application_name"] = application
	}
}

// unreadable is for a URL. The drivers' own errors quote what they were given,
// and find the password in it only where that is well-formed.
func unreadable(what string) error {
	return errors.New(what + " that can be read; in a URL, a password's special characters are %-encoded")
}

// use lends fn the database until a signal comes.
func (t *migrateTarget) use(fn func(ctx context.Context, db *sql.DB) error) error {
	config, err := t.config()
	if err != nil {
		return err
	}
	ctx, done := untilSignal(context.Background())
	defer done()
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if err := reachable(ctx, db); err != nil {
		return err
	}
	err = fn(ctx, db)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func reachable(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reach, errors.New("no answer within "+reach.String()))
	defer cancel()
	err := db.PingContext(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if err != nil {
		return fmt.Errorf("postgres cannot be used: %w", err)
	}
	return nil
}

package main

import (
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed marks_rights.sql
var rightsSQL string

// lacking says which GRANT would have prevented err, where it is about a right.
// ask runs rightsSQL.
func lacking(err error, ask func(missing *string) error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "42501" { // insufficient_privilege
		return err
	}
	var missing string
	if ask(&missing) != nil || missing == "" {
		return err
	}
	return fmt.Errorf("%w: a right is missing: %s", err, missing)
}

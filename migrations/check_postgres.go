package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

var (
	//go:embed check_schema.sql
	checkSchemaSQL string
	//go:embed check_postgres.sql
	checkPostgresSQL string
)

// checkPostgres calls version() only where this role can: an error would be the
// driver's, and no finding.
func checkPostgres(ctx context.Context, db *sql.DB, name schema, newest int64) ([]string, error) {
	var there, usable, versioned, callable, readable bool
	var role string
	row := db.QueryRowContext(ctx, name.put(checkSchemaSQL))
	if err := row.Scan(&there, &usable, &versioned, &callable, &readable, &role); err != nil {
		return nil, err
	}
	what := "schema " + name.ident()
	switch {
	case !there:
		return []string{what + " is not there: apply the migrations, with fencepost migrate up"}, nil
	case !usable:
		return []string{fmt.Sprintf("role %s may not use %s: GRANT USAGE ON SCHEMA %s TO %s", role, what, name.ident(), role)}, nil
	}
	says := ""
	switch {
	case versioned && callable:
		says = "SELECT " + name.ident() + ".version()"
	case !versioned && readable: // the last file is not applied yet, or the first that was taken back
		says = "SELECT coalesce(max(version_id), 0) FROM " + name.ident() + "." + versionTable + " WHERE is_applied"
	}
	version := int64(-1)
	if says != "" {
		if err := db.QueryRowContext(ctx, says).Scan(&version); err != nil {
			return nil, err
		}
	}
	complete := version >= newest || versioned && !callable
	findings, err := findingsOf(ctx, db, name, complete)
	if !complete {
		findings = append([]string{older(what, version, newest)}, findings...)
	}
	return findings, err
}

// findingsOf leaves out what is missing where that is the version's fault.
func findingsOf(ctx context.Context, db *sql.DB, name schema, complete bool) ([]string, error) {
	rows, err := db.QueryContext(ctx, name.put(checkPostgresSQL))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var findings []string
	for rows.Next() {
		var missing bool
		var finding string
		if err := rows.Scan(&missing, &finding); err != nil {
			return nil, err
		}
		if complete || !missing {
			findings = append(findings, finding)
		}
	}
	return findings, rows.Err()
}

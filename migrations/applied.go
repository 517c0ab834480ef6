package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/pressly/goose/v3/database"
)

// applied returns when each version was applied; it creates nothing, as goose
// would.
func (v versions) applied(ctx context.Context, db *sql.DB, d Dialect) (map[int64]time.Time, error) {
	exists, err := v.kept(ctx, db, d)
	if err != nil || !exists {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT version_id, "+d.seconds()+" FROM "+v.Tablename()+" ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("versions in %s: %w", v.Tablename(), err)
	}
	defer rows.Close()
	applied := map[int64]time.Time{}
	for rows.Next() {
		var version, at int64
		if err := rows.Scan(&version, &at); err != nil {
			return nil, fmt.Errorf("versions in %s: %w", v.Tablename(), err)
		}
		applied[version] = time.Unix(at, 0).UTC()
	}
	return applied, rows.Err()
}

// kept tells whether there is a version table, and is ErrUnversioned where
// there are marks without one. It looks for the marks first: an Up makes them
// last.
func (v versions) kept(ctx context.Context, db database.DBTxConn, d Dialect) (bool, error) {
	made, err := v.named(d.marks()).TableExists(ctx, db)
	if err != nil {
		return false, err
	}
	exists, err := v.TableExists(ctx, db)
	if err == nil && made && !exists {
		err = ErrUnversioned
	}
	return exists, err
}

// named asks for another table of ours.
func (v versions) named(table string) versions {
	v.args = slices.Clone(v.args)
	v.args[len(v.args)-1] = table
	return v
}

// marks is the name of the dialect's table of marks.
func (d Dialect) marks() string {
	if d == Postgres {
		return "marks"
	}
	return "fencepost_marks"
}

// seconds is when a version was applied, in seconds since 1970. Times as such
// come in another shape from each driver, and MySQL's in the session's zone.
func (d Dialect) seconds() string {
	switch d {
	case MySQL:
		return "UNIX_TIMESTAMP(tstamp)"
	case SQLite:
		return "CAST(strftime('%s', tstamp) AS INTEGER)"
	default:
		return "floor(extract(epoch FROM tstamp))::bigint"
	}
}

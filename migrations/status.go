package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
)

// ErrUnversioned says that the tables are there, and no version table beside
// them: they were not applied by [Set.Up] but by [Set.SQL] or somebody's own
// goose, which is then the tool for the next versions too. [Set.Check] tells
// whether they are complete.
var ErrUnversioned = errors.New("the tables are there, but were not applied by Up: keep to the tool that did (Check says whether they are complete)")

// Migration is one file of a [Set] in one database.
type Migration struct {
	Version int64
	// File is the name of the file, as in "00001_marks.sql". It is empty where
	// the database has a version that this library does not know yet.
	File string
	// AppliedAt is by the server's clock. It is zero where the file has not
	// been applied.
	AppliedAt time.Time
}

// Status returns the set's migrations, and those that a newer library has
// applied, the oldest first. It reads the version table and changes nothing,
// so the role of db needs SELECT on that table (on PostgreSQL:
// fencepost_migrations, in the schema); the application's own role has not got
// it, see [Set.Check] for that. Where nothing was applied yet there is nothing
// to read, and no file is. The error is [ErrUnversioned] where somebody else
// has made the tables.
func (s Set) Status(ctx context.Context, db *sql.DB) ([]Migration, error) {
	_, table, err := s.parts()
	if err != nil {
		return nil, err
	}
	applied, err := table.applied(ctx, db, s.Dialect)
	if err != nil {
		return nil, fmt.Errorf("migrations: %s: %w", s.Dialect, err)
	}
	all := map[int64]Migration{}
	for version, at := range applied {
		all[version] = Migration{Version: version, AppliedAt: at}
	}
	for version, file := range s.files() {
		all[version] = Migration{Version: version, File: file, AppliedAt: applied[version]}
	}
	delete(all, 0) // goose's own
	status := make([]Migration, 0, len(all))
	for _, version := range slices.Sorted(maps.Keys(all)) {
		status = append(status, all[version])
	}
	return status, nil
}

// files returns the names of the set's files by version.
func (s Set) files() map[int64]string {
	files := map[int64]string{}
	names, _ := fs.Glob(FS, s.Dialect.String()+"/*.sql") // no error: the pattern is good
	for _, name := range names {
		if version, err := goose.NumericComponent(name); err == nil {
			files[version] = name[len(s.Dialect.String())+1:]
		}
	}
	return files
}

// newest returns the version of a complete database.
func (s Set) newest() int64 { return slices.Max(slices.Collect(maps.Keys(s.files()))) }

package migrations

import (
	"context"
	"database/sql"
	"errors"
)

func checkSQLite(ctx context.Context, db *sql.DB, s Set, table versions) ([]string, error) {
	findings, err := s.behind(ctx, db)
	if err != nil || len(findings) > 0 {
		return findings, err
	}
	for _, name := range []string{"fencepost_marks", "fencepost_floor"} {
		exists, err := table.named(name).TableExists(ctx, db)
		if err != nil {
			return nil, err
		}
		if !exists {
			findings = append(findings, lost(name))
		}
	}
	return findings, nil
}

// behind is the finding that the version table lacks one of our versions. There
// is none where it has them all, nor where the marks are there without it.
func (s Set) behind(ctx context.Context, db *sql.DB) ([]string, error) {
	status, err := s.Status(ctx, db)
	if errors.Is(err, ErrUnversioned) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var version int64
	for _, m := range status {
		if m.AppliedAt.IsZero() {
			return []string{older("the database", version, s.newest())}, nil
		}
		version = m.Version
	}
	return nil, nil
}

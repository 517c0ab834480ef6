package migrations

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

func checkMySQL(ctx context.Context, db *sql.DB, s Set) ([]string, error) {
	findings, err := s.behind(ctx, db)
	if err != nil || len(findings) > 0 {
		return findings, err
	}
	for _, name := range []string{"fencepost_marks", "fencepost_floor"} {
		var engine string
		err := db.QueryRowContext(ctx, "SELECT coalesce(engine, '') FROM information_schema.tables "+
			"WHERE table_schema = DATABASE() AND table_name = ?", name).Scan(&engine)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			findings = append(findings, lost(name))
		case err != nil:
			return nil, err
		case !strings.EqualFold(engine, "InnoDB"):
			findings = append(findings, "table "+name+" has no transactions, and admits what it should refuse: "+
				"ALTER TABLE "+name+" ENGINE = InnoDB")
		}
	}
	return findings, nil
}

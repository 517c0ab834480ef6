package migrations

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3"
)

func upSQLite(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) error {
	return untilAlone(ctx, db, table, p, func() error {
		exists, err := table.kept(ctx, db, SQLite)
		if err == nil && !exists {
			err = immediately(ctx, db, table)
		}
		if err == nil {
			_, err = p.Up(ctx)
		}
		return err
	})
}

func downSQLite(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) error {
	return untilAlone(ctx, db, table, p, func() error {
		exists, err := table.kept(ctx, db, SQLite)
		if err == nil && exists {
			_, err = p.DownTo(ctx, 0)
		}
		return err
	})
}

// immediately makes the version table in a transaction that takes the lock at
// once: two that had read first could both only give up.
func immediately(ctx context.Context, db *sql.DB, table versions) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err = table.create(ctx, conn)
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}

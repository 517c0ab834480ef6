package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// step is something to do over a connection to the server.
type step func(ctx context.Context, conn *pgx.Conn) error

// do takes the steps over a connection of its own, also after the test.
func (s *Spare) do(steps ...step) error {
	ctx, cancel := afterTest(s.t)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err = step(ctx, conn); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

func statement(sql string) step {
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	}
}

// findWALWriter waits for it: it starts a moment after the server accepts
// connections.
func (s *Spare) findWALWriter(ctx context.Context, conn *pgx.Conn) error {
	for {
		row := conn.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
		if err := row.Scan(&s.walWriter); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// signal sends one to the WAL writer, through the server, which may be in a
// container. The query has no rows: PostgreSQL cannot write them to a program
// that has ended.
func (s *Spare) signal(name string) step {
	return func(ctx context.Context, conn *pgx.Conn) error {
		return statement(fmt.Sprintf("COPY (SELECT WHERE false) TO PROGRAM 'kill %s %d'", name, s.walWriter))(ctx, conn)
	}
}

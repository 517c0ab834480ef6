package testenv

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// ask returns the one value that sql asks for.
func ask[T any](s *PostgresServer, sql string) (value T) {
	s.own.t.Helper()
	s.do(sql, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql).Scan(&value)
	})
	return value
}

func (s *PostgresServer) exec(sql string) {
	s.own.t.Helper()
	s.do(sql, statement(sql))
}

// do connects anew, since the server may have been another one a moment ago.
func (s *PostgresServer) do(sql string, step step) {
	s.own.t.Helper()
	ctx := s.own.t.Context()
	conn, err := pgx.Connect(ctx, s.URL())
	if err == nil {
		err = step(ctx, conn)
		conn.Close(ctx)
	}
	if err != nil {
		s.own.t.Fatalf("testenv: PostgreSQL on port %d: %s: %v", s.own.port, sql, err)
	}
}

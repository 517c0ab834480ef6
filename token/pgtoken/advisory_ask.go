package pgtoken

import (
	"context"
	_ "embed" // the statement
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/token"
)

//go:embed advisory_acquire.sql
var advisoryAcquireSQL string

// ask returns a connection with a refusal only: one that can wait.
func (a *Advisory) ask(ctx context.Context, tok token.Token, ttl time.Duration) (token.Grant, *pgxpool.Conn, error) {
	grant, err := a.again(ctx, tok, ttl)
	if errors.Is(err, token.ErrLost) {
		var conn *pgxpool.Conn
		if conn, err = a.connection(ctx); err == nil {
			var held *token.HeldError
			if grant, held, err = a.try(ctx, conn, tok, ttl); held != nil {
				return grant, conn, held
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("pgtoken: acquire %s: %w", tok.Resource, err)
	}
	return grant, nil, err
}

// again is for the holder who has the resource already, and gets a new number.
func (a *Advisory) again(ctx context.Context, tok token.Token, ttl time.Duration) (token.Grant, error) {
	s := a.sessions.get(tok)
	if s == nil {
		return token.Grant{}, token.ErrLost
	}
	got := s.ask(ctx, ttl, advisoryDrawSQL)
	if got.err != nil {
		return token.Grant{}, got.err
	}
	tok.Number = got.number
	return token.Grant{Token: tok, Until: got.until}, nil
}

// try leaves the connection alone where it refuses.
func (a *Advisory) try(ctx context.Context, conn *pgxpool.Conn, tok token.Token, ttl time.Duration) (
	grant token.Grant, held *token.HeldError, err error,
) {
	held = &token.HeldError{Resource: tok.Resource}
	var granted bool
	var remaining microseconds
	sent := time.Now()
	err = a.on(conn).call(ctx, advisoryAcquireSQL, []any{tok.Resource, tok.Holder, milliseconds(ttl), process(conn)},
		&granted, &tok.Number, &held.Holder, &remaining)
	switch {
	case err != nil:
		destroy(conn) // it may have the lock
		return grant, nil, err
	case !granted:
		held.Remaining = remaining.duration()
		return grant, held, nil
	}
	grant, err = a.keep(conn, tok, sent.Add(ttl))
	return grant, nil, err
}

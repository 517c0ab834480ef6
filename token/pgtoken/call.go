package pgtoken

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/token"
)

const (
	defaultSchema = "fencepost"

	codeExhausted         = "ZF005" // package migrations'
	codeSequenceExhausted = "2200H"

	// goodbye bounds the rollback of what has failed already.
	goodbye = 5 * time.Second
)

// own is the transaction that every call has for itself. A stricter level, as
// a session may have by default, would fail where two calls meet.
var own = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// call sends BEGIN, the statement and COMMIT in one packet, and reads the one
// row there is. Nothing it has read counts before the commit is confirmed.
func (i *Issuer) call(ctx context.Context, sql string, args []any, row ...any) error {
	if err := usable(i.DB); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.BeginTx(own)
	b.Queue(i.inSchema(sql), args...)
	b.Queue("commit")
	return explained(ctx, read(ctx, i.DB.SendBatch(ctx, b), row))
}

func explained(ctx context.Context, err error) error {
	if code := sqlState(err); code == codeExhausted || code == codeSequenceExhausted {
		return fmt.Errorf("%w: %w", token.ErrExhausted, err)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// sqlState is that of err, or empty.
func sqlState(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

func read(ctx context.Context, br pgx.BatchResults, row []any) error {
	if tx := br.Tx(); tx != nil {
		// After the commit this sends nothing. In every case it gives a pool its
		// connection back.
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
			defer cancel()
			_ = tx.Rollback(ctx)
		}()
	}
	_, err := br.Exec()
	if err == nil {
		err = br.QueryRow().Scan(row...)
	}
	if e := br.Close(); err == nil { // the commit's
		err = e
	}
	return err
}

func (i *Issuer) inSchema(sql string) string {
	schema := i.Schema
	if schema == "" {
		schema = defaultSchema
	}
	return strings.Replace(sql, "{schema}", pgx.Identifier{schema}.Sanitize(), 1)
}

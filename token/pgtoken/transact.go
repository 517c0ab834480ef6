package pgtoken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/token"
)

const (
	codeExhausted         = "ZF005" // of package migrations
	codeSequenceExhausted = "2200H"

	codeReadOnly    = "25006"
	codeUnsupported = "0A000" // from BEGIN READ WRITE on a standby

	// rollbackTimeout bounds the rollback of a transaction that has failed.
	rollbackTimeout = 5 * time.Second
)

// txOptions are the options of every call's transaction that writes. A session may have a stricter
// isolation level by default, under which two concurrent calls would fail.
var txOptions = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// transact sends BEGIN, the statement and COMMIT in one packet, and scans the statement's
// one row into row. The values of row are valid only if the error is nil: then the commit
// is confirmed. Errors are those of explain. A standby is [token.ErrUnreachable]: it has
// applied nothing, and may be promoted.
func (i *Issuer) transact(ctx context.Context, db DB, sql string, args []any, row ...any) error {
	err := sendTx(ctx, db, txOptions, sql, args, row)
	if code := sqlState(err); code != codeReadOnly && code != codeUnsupported {
		return explain(ctx, err)
	}
	// Other servers return these codes too, for what does not heal.
	standby, asked := inRecovery(ctx, db)
	switch {
	case asked != nil:
		return explain(ctx, asked)
	case standby:
		return fmt.Errorf("%w: the request was sent to a standby: connect to the primary, as with target_session_attrs=read-write; "+
			"a pooler that splits reads from writes must send the functions of this schema there: %w", token.ErrUnreachable, err)
	}
	return explain(ctx, sendTx(ctx, db, txOptions, sql, args, row)) // it may have been promoted before the question
}

func sendTx(ctx context.Context, db DB, options pgx.TxOptions, sql string, args []any, row []any) error {
	b := &pgx.Batch{}
	b.BeginTx(options)
	b.Queue(sql, args...)
	b.Queue("commit")
	return read(ctx, db.SendBatch(ctx, b), row)
}

func inRecovery(ctx context.Context, db DB) (standby bool, err error) {
	b := &pgx.Batch{}
	b.Queue("SELECT pg_catalog.pg_is_in_recovery()")
	results := db.SendBatch(ctx, b)
	err = results.QueryRow().Scan(&standby)
	return standby, errors.Join(err, results.Close())
}

func read(ctx context.Context, br pgx.BatchResults, row []any) error {
	if tx := br.Tx(); tx != nil {
		// After the commit this sends nothing. In every case it returns the connection to
		// its pool.
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
			defer cancel()
			_ = tx.Rollback(ctx)
		}()
	}
	_, err := br.Exec()
	if err == nil {
		err = br.QueryRow().Scan(row...)
	}
	if e := br.Close(); err == nil { // the error of the commit
		err = e
	}
	return err
}

// explain returns err as the Issuer returns it: with [token.ErrExhausted] if the server
// has no number left, with the cause of ctx if ctx has ended, and with
// [token.ErrUnreachable] if the server could not be reached, or is not the one that
// target_session_attrs demands.
func explain(ctx context.Context, err error) error {
	if code := sqlState(err); code == codeExhausted || code == codeSequenceExhausted {
		return fmt.Errorf("%w: %w", token.ErrExhausted, err)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	standby := errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
	if (standby || outage.Is(err)) && !errors.Is(err, token.ErrUnreachable) {
		return fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	}
	return err
}

// sqlState returns the SQLSTATE of err, or "" if err does not come from the server.
func sqlState(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

func (i *Issuer) schemaName() string { return cmp.Or(i.Schema, "fencepost") }

// inSchema replaces {schema} in sql with the quoted name of the Issuer's schema.
func (i *Issuer) inSchema(sql string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{i.schemaName()}.Sanitize())
}

// microseconds is an interval as it is sent and received. An integer has the same meaning
// in every query mode of pgx.
type microseconds int64

func (m microseconds) duration() time.Duration { return time.Duration(m) * time.Microsecond }

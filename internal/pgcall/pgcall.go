// Package pgcall calls the functions of package migrations for the issuers on PostgreSQL:
// one statement in a transaction of its own.
package pgcall

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
	defaultSchema = "fencepost"

	codeExhausted         = "ZF005" // of package migrations
	codeSequenceExhausted = "2200H"

	codeReadOnly    = "25006"
	codeUnsupported = "0A000" // from BEGIN READ WRITE on a standby

	// rollbackTimeout bounds the rollback of a transaction that has failed.
	rollbackTimeout = 5 * time.Second
)

// TxOptions are the options of every call's transaction. A session may have a stricter
// isolation level by default, under which two concurrent calls would fail.
var TxOptions = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// DB sends a batch: a *pgxpool.Pool or a *pgx.Conn.
type DB interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// CheckIdle returns an error if conn is inside a transaction.
func CheckIdle(conn *pgx.Conn) error {
	if conn.PgConn().TxStatus() != 'I' {
		return errors.New("DB is a connection inside a transaction, which COMMIT would end")
	}
	return nil
}

// Transact sends BEGIN, the statement and COMMIT in one packet, and scans the statement's
// one row into row. The values of row are valid only if the error is nil: then the commit
// is confirmed. Errors are those of [Explain]. A standby is [token.ErrUnreachable]: it has
// applied nothing, and may be promoted.
func Transact(ctx context.Context, db DB, sql string, args []any, row ...any) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	err := transact(ctx, db, sql, args, row)
	if code := SQLState(err); code != codeReadOnly && code != codeUnsupported {
		return Explain(ctx, err)
	}
	// Other servers return these codes too, for what does not heal.
	standby, asked := inRecovery(ctx, db)
	switch {
	case asked != nil:
		return Explain(ctx, asked)
	case standby:
		return fmt.Errorf("%w: the request was sent to a standby: connect to the primary, as with target_session_attrs=read-write; "+
			"a pooler that splits reads from writes must send the functions of this schema there: %w", token.ErrUnreachable, err)
	}
	return Explain(ctx, transact(ctx, db, sql, args, row)) // it may have been promoted before the question
}

func transact(ctx context.Context, db DB, sql string, args []any, row []any) error {
	b := &pgx.Batch{}
	b.BeginTx(TxOptions)
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

// Explain returns err as an issuer returns it: with [token.ErrExhausted] if the server
// has no number left, with the cause of ctx if ctx has ended, and with
// [token.ErrUnreachable] if the server could not be reached.
func Explain(ctx context.Context, err error) error {
	if code := SQLState(err); code == codeExhausted || code == codeSequenceExhausted {
		return fmt.Errorf("%w: %w", token.ErrExhausted, err)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return Unreachable(err)
}

// Unreachable adds [token.ErrUnreachable] to err if the server could not be
// reached, or is not the one that target_session_attrs demands. err must not be caused by
// a context.
func Unreachable(err error) error {
	standby := errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
	if (standby || outage.Is(err)) && !errors.Is(err, token.ErrUnreachable) {
		return fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	}
	return err
}

// SQLState returns the SQLSTATE of err, or "" if err does not come from the server.
func SQLState(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// Schema returns name, or the default schema if name is empty.
func Schema(name string) string { return cmp.Or(name, defaultSchema) }

// InSchema replaces {schema} in sql with the quoted name of a schema.
func InSchema(schema, sql string) string {
	return strings.Replace(sql, "{schema}", pgx.Identifier{Schema(schema)}.Sanitize(), 1)
}

// Microseconds is an interval as it is sent and received. An integer has the same meaning
// in every query mode of pgx.
type Microseconds int64

// Duration returns m as a duration.
func (m Microseconds) Duration() time.Duration { return time.Duration(m) * time.Microsecond }

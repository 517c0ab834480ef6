package stdsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
)

// engineChecked is the value of the session variable after the engine was checked.
const engineChecked = "fences"

// knownConns has the driver connections whose engine is known to fence. Its keys are of
// type weak.Pointer[byte], which keep no connection alive.
var knownConns sync.Map

// checkConn probes the engine of a connection, once for each connection. from is the
// connection, or its transaction on SQLite. A refusal is not cached, since the setting that
// caused it may change.
func (c *call) checkConn(ctx context.Context, conn *sql.Conn, from Tx) error {
	if c.DangerouslyTrustEngine {
		return nil
	}
	var at *byte
	if err := conn.Raw(func(raw any) error {
		at = connAddress(raw)
		return nil
	}); err != nil {
		return notSent(err)
	}
	var key weak.Pointer[byte]
	if at != nil {
		key = weak.Make(at)
		if _, known := knownConns.Load(key); known {
			return nil
		}
	}
	if err := c.probe(ctx, from); err != nil {
		_, err = c.report(ctx, nil, err)
		return err
	}
	if at != nil {
		knownConns.Store(key, nil)
		runtime.AddCleanup(at, func(key weak.Pointer[byte]) { knownConns.Delete(key) }, key)
	}
	return nil
}

// checkTx probes the caller's transaction on SQLite. A *sql.Tx does not expose its
// connection, so nothing is cached.
func (c *call) checkTx(ctx context.Context, tx Tx) error {
	if c.DangerouslyTrustEngine || !c.isLocal() {
		return nil
	}
	_, err := c.report(ctx, nil, c.probe(ctx, tx))
	return c.wrongDialect(ctx, tx, err)
}

// checkSession probes the caller's transaction on a server, once for each session: it keeps
// the result in a variable that only this package reads. checked is that variable, which
// the admission has read, and store sets it. Neither store commits, and MySQL's survives a
// ROLLBACK.
func (g *Guard) checkSession(ctx context.Context, tx Tx, d dialect, checked sql.NullString, store string) error {
	if g.DangerouslyTrustEngine || checked.String == engineChecked {
		return nil
	}
	if err := d.probe(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, store); err != nil {
		return fmt.Errorf("stdsql: store the result of the engine check: %w", err)
	}
	return nil
}

// connAddress returns the address of a driver's connection, or nil if it has none, as a
// wrapper that is no pointer. Then the engine is probed each time. A connection with a
// method Conn() that returns a pointer has the address of the result: a pool of pgx's
// stdlib.OpenDBFromPool makes a new wrapper each time it takes a *pgx.Conn, which lives
// longer.
func connAddress(raw any) *byte {
	conn := reflect.ValueOf(raw)
	if method := conn.MethodByName("Conn"); method.IsValid() {
		if is := method.Type(); is.NumIn() == 0 && is.NumOut() == 1 && is.Out(0).Kind() == reflect.Pointer {
			conn = method.Call(nil)[0]
		}
	}
	if conn.Kind() != reflect.Pointer || conn.IsNil() || conn.Type().Elem().Size() == 0 {
		return nil
	}
	return (*byte)(conn.UnsafePointer())
}

// wrongDialect adds to err, of a probe or an admission, that the database is of another
// kind than Guard.Dialect, if it seems to be.
func (g *Guard) wrongDialect(ctx context.Context, from engine.Rower, err error) error {
	if err == nil || hasOutcome(err) || errors.Is(err, guard.ErrUnfenced) || errors.Is(err, driver.ErrBadConn) || ctx.Err() != nil {
		return err
	}
	if other := engine.Mismatch(ctx, from, err, g.Dialect); other != "" {
		return fmt.Errorf("stdsql: Guard.Dialect is %s, and the database seems to be %s, nothing applied: %w", g.Dialect, other, err)
	}
	return err
}

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

// checkConn queries the engine of a connection before anything else is sent, once for
// each connection. A refusal is not cached, since the setting that caused it may change.
func (g *Guard) checkConn(ctx context.Context, d dialect, conn *sql.Conn) error {
	if g.DangerouslyTrustEngine {
		return nil
	}
	var at *byte
	if err := conn.Raw(func(raw any) error {
		at = connAddress(reflect.ValueOf(raw))
		return nil
	}); err != nil {
		return fmt.Errorf("stdsql: nothing was sent: %w", err)
	}
	var key weak.Pointer[byte]
	if at != nil {
		key = weak.Make(at)
		if _, known := knownConns.Load(key); known {
			return nil
		}
	}
	if err := d.probe(ctx, conn); err != nil {
		return err
	}
	if at != nil {
		knownConns.Store(key, nil)
		runtime.AddCleanup(at, func(key weak.Pointer[byte]) { knownConns.Delete(key) }, key)
	}
	return nil
}

var connType = reflect.TypeFor[driver.Conn]()

// connAddress returns the address of a driver's connection, or nil if it has no address
// of its own. Then the engine is queried each time. A connection that wraps another one
// by value has the address of that one.
func connAddress(conn reflect.Value) *byte {
	switch conn.Kind() {
	case reflect.Pointer:
		if !conn.IsNil() && conn.Type().Elem().Size() > 0 {
			return (*byte)(conn.UnsafePointer())
		}
	case reflect.Interface:
		return connAddress(conn.Elem())
	case reflect.Struct:
		for i := range conn.NumField() {
			if field := conn.Field(i); field.Type().Implements(connType) {
				return connAddress(field)
			}
		}
	}
	return nil
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

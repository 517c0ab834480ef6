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
// connection, or its transaction if the dialect probes transactions. A refusal is not
// cached, since the setting that caused it may change.
func (g *Guard) checkConn(ctx context.Context, a admission, conn *sql.Conn, from Tx) error {
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
	if err := a.probe(ctx, from); err != nil {
		_, err = g.report(ctx, a, nil, err)
		return err
	}
	if at != nil {
		knownConns.Store(key, nil)
		runtime.AddCleanup(at, func(key weak.Pointer[byte]) { knownConns.Delete(key) }, key)
	}
	return nil
}

// checkTx probes the caller's transaction, if the dialect probes transactions. A *sql.Tx
// does not expose its connection, so nothing is cached. The other dialects keep the
// result in the session.
func (g *Guard) checkTx(ctx context.Context, a admission, tx Tx) error {
	if g.DangerouslyTrustEngine || !a.probesTx() {
		return nil
	}
	_, err := g.report(ctx, a, nil, a.probe(ctx, tx))
	return g.wrongDialect(ctx, tx, err)
}

var connType = reflect.TypeFor[driver.Conn]()

// connAddress returns the address of a driver's connection, or nil if it has no address
// of its own. Then the engine is probed each time. A connection that wraps another one by
// value has the address of that one. A connection with a method Conn() that returns a
// pointer has the address of the result: a pool of pgx's stdlib.OpenDBFromPool makes a
// new wrapper each time it takes a *pgx.Conn, which lives longer.
func connAddress(conn reflect.Value) *byte {
	if inner := innerConn(conn); inner.IsValid() {
		conn = inner
	}
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

// innerConn returns the result of conn's method Conn(), if it is a pointer other than
// nil.
func innerConn(conn reflect.Value) (none reflect.Value) {
	isNil := conn.Kind() == reflect.Pointer && conn.IsNil()
	if !conn.IsValid() || !conn.CanInterface() || conn.Kind() == reflect.Interface || isNil {
		return none // its methods cannot be called
	}
	method := conn.MethodByName("Conn")
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 || method.Type().Out(0).Kind() != reflect.Pointer {
		return none
	}
	if inner := method.Call(nil)[0]; !inner.IsNil() {
		return inner
	}
	return none
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

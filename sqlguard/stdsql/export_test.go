package stdsql

import (
	"database/sql"
	"weak"
)

// KeyOf returns the key of a connection in knownConns.
func KeyOf(conn *sql.Conn) (key weak.Pointer[byte]) {
	_ = conn.Raw(func(raw any) error {
		key = weak.Make(connAddress(raw))
		return nil
	})
	return key
}

// Known reports whether a connection is in knownConns: its engine was checked.
func Known(key weak.Pointer[byte]) bool {
	_, known := knownConns.Load(key)
	return known
}

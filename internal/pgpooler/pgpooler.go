// Package pgpooler detects a pooler before PostgreSQL that lets clients share sessions.
package pgpooler

import "context"

// Process is the query for the id of the process that answers. A pooler has announced
// another one when the connection began: its own.
const Process = "SELECT pg_catalog.pg_backend_pid()::bigint"

// Client returns the result of [Process] on its own connection.
type Client func(ctx context.Context) (process int64, err error)

// Shared reports whether a pooler gives the session of a client to others between two
// transactions.
//
// No transaction is open meanwhile: in as many callers as the pool has sessions, each would
// wait for a session of the others. Each client is asked twice in turn: a pooler that takes
// its two sessions in turn would otherwise give the same one to each. It is asked again and
// again, because other clients may use the session that the two would share.
func Shared(ctx context.Context, one, other Client) (bool, error) {
	var last [2]int64
	for range 5 {
		for i, client := range []Client{one, one, other, other} {
			process, err := client(ctx)
			if err != nil {
				return false, err
			}
			if last[i/2] != 0 && last[i/2] != process || process == last[1-i/2] {
				return true, nil
			}
			last[i/2] = process
		}
	}
	return false, nil
}

package pgtoken

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/token"
)

// pageSize is how many leases one statement of Locks returns.
const pageSize = 1000

// One row of JSON can be scanned in every mode of pgx.
var (
	inspectSQL = "SELECT coalesce(json_agg(s), '[]')::text FROM (" + stateSQL + " WHERE l.resource = $1) s"
	locksSQL   = "SELECT coalesce(json_agg(s), '[]')::text FROM (" + stateSQL +
		" WHERE l.resource > $1 AND l.resource >= $2 AND starts_with(l.resource, $2) AND (l.held OR l.queued) ORDER BY l.resource LIMIT $3) s"
)

// Inspect implements [token.Inspector]. It is one statement in a read-only transaction,
// which waits for no lock. The role needs SELECT on the tables leases and waiters.
func (i *Issuer) Inspect(ctx context.Context, resource string) (token.State, error) {
	found, err := i.states(ctx, inspectSQL, resource)
	if err != nil {
		return token.State{}, fmt.Errorf("pgtoken: inspect %s: %w", resource, err)
	}
	return append(found, token.State{Resource: resource})[0], nil
}

// Locks implements [token.Inspector]. It sends a statement as that of Inspect for each
// thousand locks, in the order of their names' bytes, and uses no connection in between.
func (i *Issuer) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		last := ""
		for n := pageSize; n == pageSize; {
			page, err := i.states(ctx, locksSQL, last, prefix, pageSize)
			if err != nil {
				yield(token.State{}, fmt.Errorf("pgtoken: locks: %w", err))
				return
			}
			n = len(page)
			for _, s := range page {
				last = s.Resource
				if (s.Holder != "" || len(s.Waiters) > 0) && !yield(s, nil) {
					return
				}
			}
		}
	}
}

// states runs a statement and parses its states. A standby accepts a read-only transaction.
func (i *Issuer) states(ctx context.Context, sql string, args ...any) (found []token.State, err error) {
	if err := checkDB(i.DB); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var text string
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
	if err := sendTx(ctx, i.DB, options, i.inSchema(sql), args, []any{&text}); err != nil {
		return nil, explain(ctx, err)
	}
	err = json.Unmarshal([]byte(text), &found)
	return found, err
}

package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
)

// units are the keys of requests and their answers, in the table units of the schema.
// Each statement has a transaction of its own, on another connection than the one that
// holds the resources: what it writes must last if the proxy is killed.
type units struct {
	pool                        *pgxpool.Pool
	timeout                     time.Duration
	findSQL, insertSQL, setsSQL string
}

func newUnits(pool *pgxpool.Pool, schema string, timeout time.Duration) *units {
	text := func(file string) string {
		start := strings.Index(file, "SELECT") // the header is for readers of the file
		return strings.ReplaceAll(file[start:], `"fencepost".`, pgx.Identifier{schema}.Sanitize()+".")
	}
	return &units{pool, timeout, text(pgadmit.FindUnitSQL), text(pgadmit.InsertUnitSQL), text(pgadmit.SetResultSQL)}
}

// bounded returns a context that does not end with the client's request.
func (u *units) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), u.timeout)
}

// find returns nil if there is no such unit. See [pgadmit.FirstResult] for the reply.
func (u *units) find(ctx context.Context, resource string, unit guard.Unit) (reply []byte, err error) {
	ctx, cancel := u.bounded(ctx)
	defer cancel()
	err = u.pool.QueryRow(ctx, u.findSQL, resource, unit.Key, unit.Sum()).Scan(&reply)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be looked up: %w", err)
	}
	return reply, nil
}

// durable makes the transaction's COMMIT wait for the disk, whatever the role's setting
// is: a reservation that is lost in a crash of the server would let the request run twice.
const durable = `SELECT pg_catalog.set_config('synchronous_commit', 'on', true)
	WHERE pg_catalog.current_setting('synchronous_commit') = 'off'`

// reserve inserts the unit without a result, and returns nil when that is committed. If
// the unit exists it returns find's reply. After an error the unit may exist.
func (u *units) reserve(ctx context.Context, resource string, unit guard.Unit) (reply []byte, err error) {
	ctx, cancel := u.bounded(ctx)
	defer cancel()
	keep := fmt.Sprintf("%dms", guard.DefaultRetention.Milliseconds())
	err = pgx.BeginFunc(ctx, u.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durable); err != nil {
			return err
		}
		return tx.QueryRow(ctx, u.insertSQL, resource, unit.Key, unit.Sum(), keep).Scan(&reply)
	})
	if err != nil {
		return nil, fmt.Errorf("the key cannot be recorded: %w", err)
	}
	return reply, nil
}

// setResult stores the answer of a unit that was reserved.
func (u *units) setResult(ctx context.Context, resource string, unit guard.Unit, answer []byte) error {
	ctx, cancel := u.bounded(ctx)
	defer cancel()
	_, err := u.pool.Exec(ctx, u.setsSQL, resource, unit.Key, answer)
	return err
}

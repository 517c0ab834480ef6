package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

var writeContests = []contest{
	{
		name: "PostgreSQL write", server: postgresServer, settings: every,
		baseline: contender{"plain UPDATE", each(writes(update))},
		others: []contender{
			{"Table.Update", each(writes(func(ctx context.Context, d *database, worker int) error {
				table := rowguard.Table{Guard: d.guard, Name: pgx.Identifier{"fenced"}, Prefix: "account/"}
				ctx = token.NewContext(ctx, current(resource(worker))) // each row has a mark of its own
				return table.Update(ctx, account(worker), rowguard.Set{"balance": unique.Add(1)})
			}))},
			{"On.Exec", each(writes(func(ctx context.Context, d *database, worker int) error {
				ctx = token.NewContext(ctx, current(branch))
				return affected(d.guard.On(branch).Exec(ctx, updateSQL, account(worker)))
			}))},
			{"the same by hand", each(writes(execByHand))},
			{"Mint", each(writes(func(ctx context.Context, d *database, worker int) error { // once per acquisition
				_, err := d.guard.Mint(ctx, "minted/"+resource(worker), "c2f1-worker-1")
				return err
			}))},
		},
	},
	{
		name: "PostgreSQL transaction", server: postgresServer, settings: every,
		baseline: contender{"the closure in pgx.BeginFunc", each(writes(func(ctx context.Context, d *database, worker int) error {
			return pgx.BeginFunc(ctx, d.pool, closure(ctx, worker))
		}))},
		others: []contender{
			{"Update", each(writes(func(ctx context.Context, d *database, worker int) error {
				ctx = token.NewContext(ctx, current(branch))
				return d.guard.Update(ctx, branch, closure(ctx, worker))
			}))},
			{"the same by hand", each(writes(func(ctx context.Context, d *database, worker int) error {
				return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
					var admitted bool
					if err := tx.QueryRow(ctx, checkSQL, branch, current(branch).Number).Scan(&admitted); err != nil || !admitted {
						return fmt.Errorf("admitted %v: %w", admitted, err)
					}
					return closure(ctx, worker)(tx)
				})
			}))},
			{"Once", each(writes(once(nil)))},
			{"Once with a result", each(writes(once([]byte(`{"status":201,"id":"c2f1a9035be17d64"}`))))},
		},
	},
}

const (
	// branch is the resource that all workers share, as writers of one token do.
	branch    = "branch/7"
	updateSQL = "UPDATE accounts SET balance = balance + 1 WHERE id = $1"
	// checkSQL is the check by hand: a program keeps the newest number in the table fences,
	// and locks that row while it writes.
	checkSQL = "SELECT number <= $2 FROM fences WHERE resource = $1 FOR SHARE"
)

// unique makes each balance a new value, and gives each operation a unit of its own.
var unique atomic.Int64

// account returns the row of a worker. Rows of different workers are in different pages.
func account(worker int) int64 { return 42 + 61*int64(worker) }

// resource returns the resource of a worker.
func resource(worker int) string { return fmt.Sprintf("account/%d", account(worker)) }

// current returns the newest token. The mark is already at it, as after the first write
// of a lease.
func current(resource string) token.Token {
	return token.Token{Resource: resource, Number: 33, Holder: "c2f1-worker-1"}
}

// database is a pool with a connection for each worker, and a guard over it.
type database struct {
	pool  *pgxpool.Pool
	guard *sqlguard.Guard
}

func writes(write func(ctx context.Context, d *database, worker int) error) setup {
	return func(ctx context.Context, c *client) op {
		pool := c.postgres(ctx, 0)
		d := &database{pool, &sqlguard.Guard{DB: pool}}
		check(d.guard.Admit(ctx, current(branch)))
		return func(ctx context.Context, worker int) error { return write(ctx, d, worker) }
	}
}

// affected returns an error if a statement did not change one row.
func affected(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%s: want one row", tag)
	}
	return err
}

// update changes the worker's row, and returns when the change is on the disk.
func update(ctx context.Context, d *database, worker int) error {
	return affected(d.pool.Exec(ctx, updateSQL, account(worker)))
}

// closure is a typical transaction.
func closure(ctx context.Context, worker int) func(pgx.Tx) error {
	return func(tx pgx.Tx) error { return affected(tx.Exec(ctx, updateSQL, account(worker))) }
}

func once(result []byte) func(ctx context.Context, d *database, worker int) error {
	return func(ctx context.Context, d *database, worker int) error {
		ctx = token.NewContext(ctx, current(branch))
		unit := guard.Unit{Key: fmt.Sprintf("payment/%d", unique.Add(1)), Fingerprint: "100 EUR"}
		_, err := d.guard.Once(ctx, branch, unit, func(tx pgx.Tx) ([]byte, error) { return result, closure(ctx, worker)(tx) })
		return err
	}
}

// execByHand sends BEGIN, the check and the write in one batch, and then COMMIT.
func execByHand(ctx context.Context, d *database, worker int) error {
	return d.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		var batch pgx.Batch
		var admitted bool
		batch.Queue("BEGIN")
		batch.Queue(checkSQL, branch, current(branch).Number).QueryRow(func(row pgx.Row) error { return row.Scan(&admitted) })
		batch.Queue(updateSQL, account(worker)).Exec(func(tag pgconn.CommandTag) error { return affected(tag, nil) })
		if err := conn.SendBatch(ctx, &batch).Close(); err != nil || !admitted {
			return fmt.Errorf("admitted %v: %w", admitted, err)
		}
		_, err := conn.Exec(ctx, "COMMIT")
		return err
	})
}

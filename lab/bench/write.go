package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// writeDatabase is the database with the written accounts.
const writeDatabase = "writes"

const (
	updateSQL          = "UPDATE accounts SET balance = balance + 1 WHERE id = $1"
	updateProtectedSQL = "UPDATE protected SET balance = balance + 1 WHERE id = $1"
	missing            = -1
)

// branch is the resource that all workers share, as writers of one token do. If rows have
// their own marks, each row is a resource.
const branch = "branch/7"

// account returns the row of a worker. Rows of different workers are in different pages.
func account(worker int) int64 { return 42 + 61*int64(worker) }

// current returns the newest token. The mark is already at it, as after the first write
// of a lease.
func current(resource string) token.Token {
	return token.Token{Resource: resource, Number: 33, Holder: "c2f1-worker-1"}
}

// overtaken returns the token before the newest.
func overtaken(resource string) token.Token {
	return token.Token{Resource: resource, Number: 32, Holder: "c2f1-worker-2"}
}

// cpuOfWrite is the target for the server's CPU time of a guarded write.
var cpuOfWrite = []bound{atMost(1.35)}

func writeMeasurements() []measurement {
	return []measurement{
		contest{
			name: "PostgreSQL write, ", server: postgresServer, settings: every,
			baseline: subject{name: "plain UPDATE", open: pooled(update)},
			others: []subject{
				{name: "Table.Update", open: onTable(current), targets: targets{overLink: {atMost(1.02)}, serverCPU: cpuOfWrite, packets: {atMost(1)}}},
				{name: "On.Exec", open: onExec(current), targets: targets{overLink: {atMost(1.06)}, serverCPU: cpuOfWrite, packets: {atMost(1)}}},
				{name: "the same two statements, in a pgx.Batch", open: guarded(admittedBatch)},
				{name: "the same by hand", open: byHand(handExec)},
				{name: "Mint", open: guarded(mint)},
			},
		},
		contest{
			name: "PostgreSQL transaction, ", server: postgresServer, settings: every,
			baseline: subject{name: "the closure in pgx.BeginFunc", open: pooled(begun)},
			others: []subject{
				{name: "Update", open: guarded(guardedUpdate), targets: targets{overLink: {atMost(1.06)}, serverCPU: cpuOfWrite, packets: {atMost(3)}}},
				{name: "the same by hand", open: byHand(handUpdate)},
			},
		},
		contest{
			name: "name of a transaction, ", server: postgresServer, settings: alone,
			baseline: subject{name: "admission, UPDATE, COMMIT", open: guarded(admittedTx(admitSQL, true))},
			others:   []subject{{name: "the same, named", open: guarded(admittedTx(admitNamedSQL, true)), targets: targets{overLink: {atMost(1.02)}}}},
		},
		contest{
			name: "name of a transaction, ", server: postgresServer, settings: alone,
			baseline: subject{name: "admission, COMMIT", open: guarded(admittedTx(admitSQL, false))},
			others:   []subject{{name: "the same, named", open: guarded(admittedTx(admitNamedSQL, false))}},
		},
		contest{
			name: "protected table, ", server: postgresServer, settings: alone,
			baseline: subject{name: "On.Exec on another table", open: onRow(updateSQL)},
			others:   []subject{{name: "On.Exec", open: onRow(updateProtectedSQL)}},
		},
		contest{
			name: "refused, ", server: postgresServer, settings: alone,
			baseline: subject{name: "UPDATE of a missing row", open: statement(0, updateSQL, missing)},
			others: []subject{
				// it sends a second statement to find out why no row matched; the baseline does not
				{name: "Table.Update", open: asRefused(onTable(overtaken))},
				{name: "On.Exec", open: asRefused(onExec(overtaken))},
			},
		},
		contest{
			name: "PostgreSQL, ", server: postgresServer, settings: alone,
			baseline: subject{name: "SELECT 1", open: statement(1, "SELECT 1")},
			others:   []subject{{name: "Admit of a claimed token", open: guarded(admit)}},
		},
	}
}

// execer runs one statement, guarded or not.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// execOne updates the row of an account, which must exist.
func execOne(ctx context.Context, db execer, sql string, account int64) error {
	tag, err := db.Exec(ctx, sql, account)
	return affected(tag, err, 1)
}

// affected returns an error if a statement did not change that many rows.
func affected(tag pgconn.CommandTag, err error, rows int64) error {
	if err == nil && tag.RowsAffected() != rows {
		return fmt.Errorf("%s: %d rows, want %d", tag, tag.RowsAffected(), rows)
	}
	return err
}

// pooled makes an operation from a function over a pool with a connection for each
// worker.
func pooled(do func(ctx context.Context, pool *pgxpool.Pool, worker int) error) opener {
	return func(ctx context.Context, c *client) op {
		pool := c.postgres(ctx, writeDatabase, c.workers)
		return func(ctx context.Context, worker int) error { return do(ctx, pool, worker) }
	}
}

// statement runs a statement without a guard. It must find that many rows.
func statement(rows int64, sql string, args ...any) opener {
	return pooled(func(ctx context.Context, pool *pgxpool.Pool, _ int) error {
		tag, err := pool.Exec(ctx, sql, args...)
		return affected(tag, err, rows)
	})
}

// guarded makes an operation with a guard. The mark of the branch is the newest token.
func guarded(do func(ctx context.Context, g *sqlguard.Guard, worker int) error) opener {
	return func(ctx context.Context, c *client) op {
		g := &sqlguard.Guard{DB: c.postgres(ctx, writeDatabase, c.workers)}
		check(g.Admit(ctx, current(branch)))
		return func(ctx context.Context, worker int) error { return do(ctx, g, worker) }
	}
}

// onExec makes all workers write under one token, each its own row.
func onExec(of func(resource string) token.Token) opener {
	return guarded(func(ctx context.Context, g *sqlguard.Guard, worker int) error {
		return execOne(token.NewContext(ctx, of(branch)), g.On(branch), updateSQL, account(worker))
	})
}

// admittedBatch sends what On.Exec sends, without On. The difference is the cost of On in
// the client.
func admittedBatch(ctx context.Context, g *sqlguard.Guard, worker int) error {
	var batch pgx.Batch
	tok := current(branch)
	batch.Queue(admitSQL, tok.Resource, tok.Number, tok.Holder, int32(pgadmit.NoRaise))
	batch.Queue(updateSQL, account(worker)).Exec(func(tag pgconn.CommandTag) error { return affected(tag, nil, 1) })
	return g.DB.SendBatch(ctx, &batch).Close()
}

const (
	admitSQL = "SELECT fencepost.admit($1, $2, $3, $4::integer) FOR UPDATE"
	// admitNamedSQL is as admit_open.sql of package pgwrite, without the idle limit.
	admitNamedSQL = "SELECT fencepost.admit($1, $2, $3, $4::integer), concat_ws(' ', pg_current_xact_id(), pg_backend_pid(), " +
		"CASE WHEN starts_with(current_setting('fencepost.incarnation', true), concat(fencepost.lock_key(''), '/')) THEN current_setting('fencepost.incarnation', true) " +
		"ELSE fencepost.session_incarnation() END) FOR UPDATE"
)

// admittedTx sends what Update sends, without Update: BEGIN and the admission, perhaps an
// UPDATE, and COMMIT.
func admittedTx(admission string, writes bool) func(ctx context.Context, g *sqlguard.Guard, worker int) error {
	return func(ctx context.Context, g *sqlguard.Guard, worker int) error {
		return g.DB.(*pgxpool.Pool).AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			var batch pgx.Batch
			tok := current(branch)
			batch.BeginTx(pgx.TxOptions{})
			batch.Queue(admission, tok.Resource, tok.Number, tok.Holder, int32(pgadmit.NoRaise))
			results := conn.Conn().SendBatch(ctx, &batch)
			tx := results.Tx()
			if err := results.Close(); err != nil {
				return err
			}
			defer tx.Rollback(ctx)
			if writes {
				if err := execOne(ctx, tx, updateSQL, account(worker)); err != nil {
					return err
				}
			}
			return tx.Commit(ctx)
		})
	}
}

// onRow makes each worker write under the token of its row, as a protected table
// requires.
func onRow(sql string) opener {
	return guarded(func(ctx context.Context, g *sqlguard.Guard, worker int) error {
		name := resource(worker)
		return execOne(token.NewContext(ctx, current(name)), g.On(name), sql, account(worker))
	})
}

// written makes each balance a new value.
var written atomic.Int64

// onTable makes each worker write its account. The row has a mark of its own, which is
// the newest token.
func onTable(of func(resource string) token.Token) opener {
	return guarded(func(ctx context.Context, g *sqlguard.Guard, worker int) error {
		table := rowguard.Table{Guard: g, Name: pgx.Identifier{"fenced"}, Prefix: "account/"}
		ctx = token.NewContext(ctx, of(resource(worker)))
		return table.Update(ctx, account(worker), rowguard.Set{"balance": written.Add(1)})
	})
}

// asRefused is an operation that must be refused.
func asRefused(open opener) opener {
	return func(ctx context.Context, c *client) op {
		do := open(ctx, c)
		return func(ctx context.Context, worker int) error { return refusal(do(ctx, worker), guard.ErrStale) }
	}
}

// admit admits a token that has the mark, as for each lease that is renewed.
func admit(ctx context.Context, g *sqlguard.Guard, _ int) error { return g.Admit(ctx, current(branch)) }

// mint mints a number for a lock without numbers, once per acquisition.
func mint(ctx context.Context, g *sqlguard.Guard, worker int) error {
	_, err := g.Mint(ctx, "minted/"+resource(worker), "c2f1-worker-1")
	return err
}

// closure is a typical transaction.
func closure(ctx context.Context, worker int) func(pgx.Tx) error {
	return func(tx pgx.Tx) error { return execOne(ctx, tx, updateSQL, account(worker)) }
}

func begun(ctx context.Context, pool *pgxpool.Pool, worker int) error {
	return pgx.BeginFunc(ctx, pool, closure(ctx, worker))
}

func guardedUpdate(ctx context.Context, g *sqlguard.Guard, worker int) error {
	ctx = token.NewContext(ctx, current(branch))
	return g.Update(ctx, branch, closure(ctx, worker))
}

// By hand, a program keeps the newest number in a table, and locks that row while it
// writes.
const (
	fenceSQL = "INSERT INTO fences VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET number = excluded.number"
	checkSQL = "SELECT number <= $2 FROM fences WHERE resource = $1 FOR SHARE"
)

// byHand writes the number once.
func byHand(do func(ctx context.Context, pool *pgxpool.Pool, worker int) error) opener {
	return func(ctx context.Context, c *client) op {
		must(c.postgres(ctx, writeDatabase, 1).Exec(ctx, fenceSQL, branch, current(branch).Number))
		return pooled(do)(ctx, c)
	}
}

// handUpdate checks first in the same transaction.
func handUpdate(ctx context.Context, pool *pgxpool.Pool, worker int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var admitted bool
		if err := tx.QueryRow(ctx, checkSQL, branch, current(branch).Number).Scan(&admitted); err != nil || !admitted {
			return fmt.Errorf("admitted %v: %w", admitted, err)
		}
		return closure(ctx, worker)(tx)
	})
}

// handExec sends BEGIN, the check and the write in one batch, and then COMMIT.
func handExec(ctx context.Context, pool *pgxpool.Pool, worker int) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		var batch pgx.Batch
		var admitted bool
		batch.Queue("BEGIN")
		batch.Queue(checkSQL, branch, current(branch).Number).QueryRow(func(row pgx.Row) error { return row.Scan(&admitted) })
		batch.Queue(updateSQL, account(worker)).Exec(func(tag pgconn.CommandTag) error { return affected(tag, nil, 1) })
		if err := conn.SendBatch(ctx, &batch).Close(); err != nil || !admitted {
			return fmt.Errorf("admitted %v: %w", admitted, err)
		}
		_, err := conn.Exec(ctx, "COMMIT")
		return err
	})
}

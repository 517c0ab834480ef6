package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// spareConns are the connections for probes of the store.
const spareConns = 2

// postgres makes a store whose admission lasts as long as the request.
func (c *Cmd) postgres(ctx context.Context, log *logger) (markStore, error) {
	config, err := connect.PostgresPool(c.Store, "--store", "fencepost proxy")
	if err != nil {
		return markStore{}, connect.BadURL("--store: neither a postgres:// nor a redis:// URL")
	}
	config.MaxConns = int32(c.MaxInFlight + spareConns)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return markStore{}, fmt.Errorf("postgres cannot be used: %w", err)
	}
	p := &postgresMarks{pool: pool, log: log}
	p.guard = sqlguard.Guard{DB: pool, Schema: c.Schema, IdleTimeout: -1}
	store := markStore{marks: &p.guard, ready: p.ready, close: pool.Close}
	if c.DangerouslyReportOnly {
		p.guard.DangerouslyReportOnly, p.guard.IdleTimeout, p.guard.Hooks.Reported = true, c.Wait, log.reported
		return store, nil
	}
	store.hold, store.claim = p.hold, p.claim
	return store, nil
}

type postgresMarks struct {
	pool  *pgxpool.Pool
	guard sqlguard.Guard
	log   *logger
}

// ready returns an error if no mark can be raised. It raises none.
func (p *postgresMarks) ready(ctx context.Context) error {
	var version int
	var standby bool
	schema := pgx.Identifier{p.guard.Schema}.Sanitize()
	err := p.pool.QueryRow(ctx, "SELECT "+schema+".version(), pg_catalog.pg_is_in_recovery()").Scan(&version, &standby)
	switch {
	case err != nil:
		return connect.NotMigrated(p.guard.Schema, fmt.Errorf("postgres cannot be used: %w", err))
	case standby:
		return errors.New("postgres cannot be used: it is a standby, and raises no marks")
	}
	return nil
}

func (p *postgresMarks) claim(ctx context.Context, resources []string) error {
	for _, resource := range resources {
		tok, err := token.FromContext(ctx, resource)
		if err != nil {
			continue // a safe request needs none
		}
		if err := p.guard.Admit(ctx, tok); err != nil {
			return err
		}
	}
	return nil
}

// noTimeouts keeps the settings of the server or the role from ending an idle admission,
// which lasts for as long as the upstream works. The second setting is PostgreSQL 17's.
const noTimeouts = `SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
	CASE WHEN pg_catalog.current_setting('transaction_timeout', true) <> '0'
	     THEN pg_catalog.set_config('transaction_timeout', '0', true)
	END`

// hold keeps a transaction open while send runs. The raise of a newer token waits for the
// transaction's shared locks on the resources, in every process. Waiters must not end the
// transaction:
//
//  1. proxy A is stopped in the middle of a request;
//  2. a waiter ends A's transaction, and its newer request is admitted;
//  3. A goes on, and finishes the older request.
//
// When a process ends, both of its connections end: the one that holds, and the one to
// the upstream.
func (p *postgresMarks) hold(wait *boundedWait, resources []string, send func(held context.Context)) error {
	sent := false
	err := p.guard.UpdateAll(wait, resources, func(tx pgx.Tx) error {
		if _, err := tx.Exec(wait, noTimeouts); err != nil {
			return err
		}
		if err := wait.finish(); err != nil {
			return err
		}
		sent = true
		sendWhileConnected(tx.Conn(), send)
		return nil
	})
	if sent && err != nil {
		p.log.metrics.storeFailed(stateOf(wait))
		p.log.Error("the admission ended before its request: a newer caller may have been let in", "resources", resources, "error", err)
		return nil
	}
	return err
}

// sendWhileConnected runs send with a context that ends when the server ends the session:
// the locks are released then.
func sendWhileConnected(conn *pgx.Conn, send func(held context.Context)) {
	held, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	watch, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for watch.Err() == nil {
			// The session listens to no channel: this returns when the connection ends.
			if _, err := conn.WaitForNotification(watch); err != nil && watch.Err() == nil {
				lose(fmt.Errorf("the admission has ended: %w", err))
				return
			}
		}
	}()
	defer func() { stop(); <-ended }()
	send(held)
}

// markStore is the server that has the marks.
type markStore struct {
	marks guard.Store
	// hold admits the tokens that wait carries for the resources, and runs send. No
	// newer token is admitted meanwhile, by any proxy. The context that send gets
	// ends when that is no longer certain. An error means that send did not run.
	// Nil if the store cannot hold.
	hold func(wait *boundedWait, resources []string, send func(held context.Context)) error
	// claim admits the tokens that wait carries, if any. Nil if hold is nil.
	claim func(wait context.Context, resources []string) error
	ready func(ctx context.Context) error
	close func()
}

func (c *Cmd) store(ctx context.Context, log *logger) (markStore, error) {
	ctx, cancel := connect.Within(ctx)
	defer cancel()
	var store markStore
	var err error
	switch {
	case c.DangerouslyMemory:
		store = markStore{marks: new(guard.Memory), ready: func(context.Context) error { return nil }, close: func() {}}
	case strings.HasPrefix(c.Store, "redis:"), strings.HasPrefix(c.Store, "rediss:"), strings.HasPrefix(c.Store, "unix:"):
		store, err = c.redis()
	default:
		store, err = c.postgres(ctx, log)
	}
	if err != nil {
		return markStore{}, err
	}
	if err := store.ready(ctx); err != nil {
		store.close()
		return markStore{}, connect.WithCause(ctx, err)
	}
	return store, nil
}

// redis makes a store that admits and does not hold: the in-flight table of this one
// process keeps an older request and a newer one apart.
func (c *Cmd) redis() (markStore, error) {
	client, ping, err := connect.Redis(c.Store, "--store")
	if err != nil {
		return markStore{}, err
	}
	return markStore{marks: &redisguard.Guard{Client: client}, ready: ping, close: func() { client.Close() }}, nil
}

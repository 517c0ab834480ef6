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

// markStore is the server that has the marks.
type markStore struct {
	guard.Store
	postgres *sqlguard.Guard // it can hold resources; nil if the store is another one
	ready    func(ctx context.Context) error
	close    func()
}

// newStore returns a store that answers.
func (p *proxy) newStore(ctx context.Context) (store markStore, err error) {
	ctx, cancel := connect.Within(ctx)
	defer cancel()
	switch scheme, _, _ := strings.Cut(p.Store, ":"); {
	case p.DangerouslyMemory:
		store = markStore{Store: new(guard.Memory), ready: func(context.Context) error { return nil }, close: func() {}}
	case scheme == "redis", scheme == "rediss", scheme == "unix":
		client, ping, err := connect.Redis(p.Store, "--store")
		if err != nil {
			return store, err
		}
		store = markStore{Store: &redisguard.Guard{Client: client}, ready: ping, close: func() { client.Close() }}
	default:
		config, err := connect.PostgresPool(p.Store, "--store", "fencepost proxy")
		if err != nil {
			return store, connect.BadURL("--store: neither a postgres:// nor a redis:// URL")
		}
		config.MaxConns = int32(p.MaxInFlight + 2) // for probes of the store
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return store, fmt.Errorf("postgres cannot be used: %w", err)
		}
		marks := &sqlguard.Guard{DB: pool, Schema: p.Schema, IdleTimeout: -1}
		if p.DangerouslyReportOnly {
			marks.DangerouslyReportOnly, marks.IdleTimeout, marks.Hooks.Reported = true, p.Wait, p.reported
		}
		store = markStore{Store: marks, postgres: marks, close: pool.Close, ready: func(ctx context.Context) error { return ready(ctx, pool, p.Schema) }}
	}
	return store, connect.WithCause(ctx, store.ready(ctx))
}

// ready returns an error if no mark can be raised. It raises none.
func ready(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	var version int
	var standby bool
	err := pool.QueryRow(ctx, "SELECT "+pgx.Identifier{schema}.Sanitize()+".version(), pg_catalog.pg_is_in_recovery()").Scan(&version, &standby)
	switch {
	case err != nil:
		return connect.NotMigrated(schema, fmt.Errorf("postgres cannot be used: %w", err))
	case standby:
		return errors.New("postgres cannot be used: it is a standby, and raises no marks")
	}
	return nil
}

// admit has the store admit the tokens, and calls send. PostgreSQL holds the resources of a
// write while send runs; held ends if that is no longer certain. An error means that nothing
// was sent.
func (p *proxy) admit(wait context.Context, st *requestState, send func(held context.Context) error) error {
	if st.unsafe && p.store.postgres != nil {
		return p.hold(wait, st.resources, send)
	}
	for _, resource := range st.resources {
		tok, err := token.FromContext(wait, resource)
		if err != nil {
			continue // a safe request needs none
		}
		if err := p.store.Admit(wait, tok); err != nil {
			return err
		}
	}
	return send(context.Background())
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
func (p *proxy) hold(wait context.Context, resources []string, send func(held context.Context) error) error {
	sent := false
	err := p.store.postgres.UpdateAll(wait, resources, func(tx pgx.Tx) error {
		_, err := tx.Exec(wait, noTimeouts)
		if err == nil {
			err = sendWhileConnected(tx.Conn(), send)
		}
		sent = err == nil
		return err
	})
	if sent && err != nil {
		p.storeErrors.Add(1)
		p.log.Error("the admission ended before its request: a newer caller may have been let in", "resources", resources, "error", err)
		return nil
	}
	return err
}

// sendWhileConnected runs send with a context that ends when the server ends the session:
// the locks are released then.
func sendWhileConnected(conn *pgx.Conn, send func(held context.Context) error) error {
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
	return send(held)
}

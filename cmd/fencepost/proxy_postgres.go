package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// spare connections are for those who ask whether the store is ready.
const spare = 2

// postgres makes a store whose admission lasts as long as the request.
func (c *proxyCmd) postgres(ctx context.Context, log *proxyLog) (marksStore, error) {
	config, err := pgxpool.ParseConfig(c.Store)
	if err != nil {
		return marksStore{}, unreadable("--store: neither a postgres:// nor a redis:// URL")
	}
	config.MaxConns = int32(c.MaxInFlight + spare)
	introduce(config.ConnConfig, "fencepost proxy")
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return marksStore{}, fmt.Errorf("postgres cannot be used: %w", err)
	}
	p := &postgresMarks{pool: pool, log: log, schema: pgx.Identifier{c.Schema}.Sanitize()}
	p.guard = sqlguard.Guard{DB: pool, Schema: c.Schema, Idle: -1}
	store := marksStore{marks: &p.guard, ready: p.ready, close: pool.Close}
	if c.DangerouslyObserve {
		p.guard.DangerouslyObserve, p.guard.Idle, p.guard.Observer.Observed = true, c.Wait, log.observed
		return store, nil
	}
	store.hold, store.claim = p.hold, p.claim
	return store, nil
}

type postgresMarks struct {
	pool   *pgxpool.Pool
	guard  sqlguard.Guard
	schema string
	log    *proxyLog
}

// ready raises no mark. A standby cannot either.
func (p *postgresMarks) ready(ctx context.Context) error {
	var version int
	var standby bool
	err := p.pool.QueryRow(ctx, "SELECT "+p.schema+".version(), pg_catalog.pg_is_in_recovery()").Scan(&version, &standby)
	switch {
	case err != nil:
		return (&marksCmd{Schema: p.schema}).explain(fmt.Errorf("postgres cannot be used: %w", err))
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

// boundless keeps the server, or the role's settings, from ending an admission
// that is idle: it lasts for as long as the upstream works. The second setting
// is PostgreSQL 17's.
const boundless = `SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
	CASE WHEN pg_catalog.current_setting('transaction_timeout', true) <> '0'
	     THEN pg_catalog.set_config('transaction_timeout', '0', true)
	END`

// hold keeps a transaction open while send runs. Its shared locks on the
// resources are what a newer token's raise waits for, in every process. Nobody
// ends it for being in the way: a proxy that is stopped in the middle of a
// request would finish it when it goes on, behind the back of whoever was let in
// meanwhile. When a process ends, its connections do, both of them: the one that
// holds, and the one to the upstream.
func (p *postgresMarks) hold(wait *waiting, resources []string, send func(held context.Context)) error {
	sent := false
	err := p.guard.UpdateAll(wait, resources, func(tx pgx.Tx) error {
		if _, err := tx.Exec(wait, boundless); err != nil {
			return err
		}
		if err := wait.over(); err != nil {
			return err
		}
		sent = true
		watched(tx.Conn(), send)
		return nil
	})
	if sent && err != nil {
		p.log.Error("the admission ended before its request: a newer caller may have been let in", "resources", resources, "error", err)
		return nil
	}
	return err
}

// watched runs send with a context that ends when the server ends the session:
// what it held is free then.
func watched(conn *pgx.Conn, send func(held context.Context)) {
	held, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	watch, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for watch.Err() == nil {
			// Nobody notifies: it returns when there is nothing to wait for any more.
			if _, err := conn.WaitForNotification(watch); err != nil && watch.Err() == nil {
				lose(fmt.Errorf("the admission has ended: %w", err))
				return
			}
		}
	}()
	defer func() { stop(); <-ended }()
	send(held)
}

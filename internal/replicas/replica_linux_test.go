package replicas_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/sqlguard"
)

// The ways of the service: each replica has all, under these prefixes.
const (
	// guarded is as the documentation has it: the middleware, and sqlguard in the
	// handler.
	guarded = "/guarded"
	// observed is the same in observe-only mode: the unguarded twin.
	observed = "/observed"
	// checked trusts a middleware whose store is the database, and writes plainly.
	checked = "/checked"
)

// serve is a replica: it serves until there are no more orders.
func (w *worker) serve(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, w.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: w.service(pool), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	w.say(event{Address: listener.Addr().String()})
	err = w.obey(func(order) error { return errors.New("a replica takes no orders") })
	return errors.Join(err, server.Close(), ignore(<-done, http.ErrServerClosed))
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// service mounts the accounts in each way.
func (w *worker) service(pool *pgxpool.Pool) http.Handler {
	quiet := guard.Observer{Observed: func(context.Context, error) {}}
	account := httpguard.Pattern("account/{id}")
	fence := &sqlguard.Guard{DB: pool, Schema: w.Schema}
	observing := &sqlguard.Guard{DB: pool, Schema: w.Schema, DangerouslyObserve: true, Observer: quiet}
	plain := func(ctx context.Context, _ string, fn func(pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, pool, fn)
	}
	mux := http.NewServeMux()
	for way, of := range map[string]struct {
		middleware httpguard.Middleware
		update     update
	}{
		guarded:  {httpguard.Middleware{Resources: account}, fence.Update},
		observed: {httpguard.Middleware{Resources: account, DangerouslyObserve: true, Observer: quiet}, observing.Update},
		checked:  {httpguard.Middleware{Resources: account, Store: fence}, plain},
	} {
		accounts := &accounts{ledger: ledgerOf(w.Schema), update: of.update, say: w.say}
		mux.Handle("GET "+way+"/accounts/{id}", of.middleware.Wrap(http.HandlerFunc(accounts.get)))
		mux.Handle("PUT "+way+"/accounts/{id}", of.middleware.Wrap(http.HandlerFunc(accounts.put)))
	}
	return mux
}

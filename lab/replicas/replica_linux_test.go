package replicas_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// The test sends one setup to each process, and then orders to the callers. The processes
// report events.

type setup struct {
	Postgres, Schema string
	Redis, Prefix    string
	Replicas         []string // their addresses, for callers
	Name             string   // of a caller
	Started          time.Time
}

// order is one unit of a caller's work: it takes the lock, reads the balance, and writes
// it plus one twice.
type order struct {
	Account string
	Way     string // of the service
	Writes  int
	Before  string // the replica for its requests
	After   string // the replica for its requests after it was stopped
	Stand   stand  `json:",omitempty"`
}

// stand is the point of A's unit at which A or the replica is stopped.
type stand string

const (
	nowhere  stand = ""
	read     stand = "between its read and its write"
	written  stand = "between its first write and its second"
	halfway  stand = "in the middle of the body of its first write"
	admitted stand = "in the handler of its first write, which was admitted" // the replica is stopped
)

// event is a report of a process.
type event struct {
	Address string       `json:",omitempty"` // from a replica: it serves there
	Halfway bool         `json:",omitempty"` // from a replica: it has read half of a body
	Ops     []history.Op `json:",omitempty"` // from a caller: the ops of its finished unit
}

// worker is one of the processes.
type worker struct {
	setup
	*subprocess.Parent
}

// now returns the time since the start, by the clock that all processes share.
func (s setup) now() time.Duration { return time.Now().Round(0).Sub(s.Started) }

// The ways of the service. Each replica has all of them under these prefixes.
const (
	// guarded is the documented way: the middleware, and sqlguard in the handler.
	guarded = "/guarded"
	// observed is the same in report-only mode: the unguarded twin.
	observed = "/observed"
	// checked has a middleware whose store is the database, and an unguarded write.
	checked = "/checked"
)

// serve runs a replica until the parent closes the input.
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
	w.Report(event{Address: listener.Addr().String()})
	ctx, cancel := w.UntilClosed(ctx)
	defer cancel()
	<-ctx.Done()
	err = server.Close()
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// service mounts the accounts in each way.
func (w *worker) service(pool *pgxpool.Pool) http.Handler {
	quiet := guard.Hooks{Reported: func(context.Context, error) {}}
	account := httpguard.Pattern("account/{id}")
	fence := &sqlguard.Guard{DB: pool, Schema: w.Schema}
	reportOnly := &sqlguard.Guard{DB: pool, Schema: w.Schema, DangerouslyReportOnly: true, Hooks: quiet}
	plain := func(ctx context.Context, _ string, fn func(pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, pool, fn)
	}
	mux := http.NewServeMux()
	for way, of := range map[string]struct {
		middleware httpguard.Middleware
		update     update
	}{
		guarded:  {httpguard.Middleware{Resources: account}, fence.Update},
		observed: {httpguard.Middleware{Resources: account, DangerouslyReportOnly: true, Hooks: quiet}, reportOnly.Update},
		checked:  {httpguard.Middleware{Resources: account, Store: fence}, plain},
	} {
		accounts := &accounts{ledger: ledgerOf(w.Schema), update: of.update, report: w.Report}
		mux.Handle("GET "+way+"/accounts/{id}", of.middleware.Wrap(http.HandlerFunc(accounts.get)))
		mux.Handle("PUT "+way+"/accounts/{id}", of.middleware.Wrap(http.HandlerFunc(accounts.put)))
	}
	return mux
}

// standHeader is the point at which the replica is to report, or to be stopped.
const standHeader = "Stand"

type update func(ctx context.Context, resource string, fn func(tx pgx.Tx) error) error

// accounts are the handlers of one way of the service.
type accounts struct {
	ledger
	update update
	report func(any)
}

// entry is the body of a write, one field in each line.
type entry struct {
	ID      string // of this write
	Balance int    // the new balance, as the caller computed it
}

// get admits before it reads: a GET with a token claims.
func (a *accounts) get(w http.ResponseWriter, r *http.Request) {
	var balance int
	err := a.update(r.Context(), "account/"+r.PathValue("id"), func(tx pgx.Tx) error {
		return tx.QueryRow(r.Context(), a.reads, r.PathValue("id")).Scan(&balance)
	})
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	fmt.Fprint(w, balance)
}

func (a *accounts) put(w http.ResponseWriter, r *http.Request) {
	e, err := a.receive(r)
	if err == nil {
		err = a.write(r.Context(), r.PathValue("id"), e)
	}
	if err != nil {
		httpguard.Error(w, r, err)
	}
}

// receive reads the body. The middleware has admitted the request before.
func (a *accounts) receive(r *http.Request) (e entry, err error) {
	body := bufio.NewReader(r.Body)
	if _, err := fmt.Fscanln(body, &e.ID); err != nil {
		return e, err
	}
	if stand(r.Header.Get(standHeader)) == halfway {
		a.report(event{Halfway: true})
	}
	if _, err := fmt.Fscanln(body, &e.Balance); err != nil {
		return e, err
	}
	if stand(r.Header.Get(standHeader)) == admitted {
		return e, subprocess.StopThread()
	}
	return e, nil
}

// write sets the balance, and records the write in the ledger.
func (a *accounts) write(ctx context.Context, id string, e entry) error {
	tok, err := token.FromContext(ctx, "account/"+id)
	if err != nil {
		return err
	}
	return a.update(ctx, tok.Resource, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, a.writes, id, e.Balance, e.ID, tok.Number)
		return err
	})
}

// ledger is the state of the database: the balance of each account, and all writes to it
// in the order in which they were applied. A write holds the lock on the account's row
// when it records itself.
type ledger struct {
	creates, opens       string
	reads, writes, tells string
}

func ledgerOf(schema string) ledger {
	accounts, entries := pgx.Identifier{schema, "accounts"}.Sanitize(), pgx.Identifier{schema, "entries"}.Sanitize()
	return ledger{
		creates: "CREATE TABLE " + accounts + " (id text PRIMARY KEY, balance int NOT NULL);" +
			"CREATE TABLE " + entries + " (seq bigserial PRIMARY KEY, account text NOT NULL, id text NOT NULL, number bigint NOT NULL);" +
			"CREATE INDEX ON " + entries + " (account)",
		opens: "INSERT INTO " + accounts + " SELECT n, 0 FROM generate_series($1::int, $2::int) n",
		reads: "SELECT balance FROM " + accounts + " WHERE id = $1",
		writes: "WITH changed AS (UPDATE " + accounts + " SET balance = $2 WHERE id = $1 RETURNING id)" +
			" INSERT INTO " + entries + " (account, id, number) SELECT id, $3, $4 FROM changed",
		tells: "SELECT a.balance, e.id, e.number FROM " + accounts + " a JOIN " + entries + " e ON e.account = a.id" +
			" WHERE a.id = $1 ORDER BY e.seq",
	}
}

// page is the ledger of one account.
type page struct {
	balance int
	times   map[string]int // how often each write was applied
	falls   int            // writes that were applied after a write with a greater number
}

func (l ledger) look(ctx context.Context, t *testing.T, pool *pgxpool.Pool, account string) page {
	t.Helper()
	p := page{times: map[string]int{}}
	rows, err := pool.Query(ctx, l.tells, account)
	require.NoError(t, err)
	var (
		id          string
		number, top int64
	)
	_, err = pgx.ForEachRow(rows, []any{&p.balance, &id, &number}, func() error {
		p.times[id]++
		if number < top {
			p.falls++
		}
		top = max(top, number)
		return nil
	})
	require.NoError(t, err)
	return p
}

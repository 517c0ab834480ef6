package sqlguard_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// dropsReplies returns a pool of one connection, which loses its replies from the packet with
// the word on. While armed, the pool opens no connection, and calls refused.
func dropsReplies(t *testing.T, word string, mode pgx.QueryExecMode, refused func()) (*pgxpool.Pool, *atomic.Bool) {
	fault := &commitFault{word: word, stays: true}
	pool, _ := wired(t, 1, fault.breaks, inMode(mode), func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if fault.armed.Load() {
				refused()
				return nil, errors.New("no server")
			}
			return dial(ctx, network, addr)
		}
	})
	return pool, &fault.armed
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	type lost struct {
		name, word, steps string // the reply to the batch with that word is lost
		mode              pgx.QueryExecMode
	}
	cases := []lost{{"UpdateAll", "commit", "begin admitted commit unknown", pgx.QueryExecModeExec}}
	for _, name := range []string{"On.Query", "On.QueryRow", "On.SendBatch"} { // no COMMIT is sent
		cases = append(cases, lost{name, "applied", "begin unknown", pgx.QueryExecModeExec})
	}
	for _, mode := range modes {
		commit := "commit"
		if mode == pgx.QueryExecModeCacheStatement { // pgx names a prepared statement by its digest
			commit = fmt.Sprintf("%x", sha256.Sum256([]byte(commit)))[:48]
		}
		cases = append(cases, lost{"Update", commit, "begin admitted commit unknown", mode},
			lost{"On.Exec", "applied", "begin unknown", mode}, lost{"Table.Update", "applied", "begin unknown", mode})
	}
	for _, c := range cases {
		t.Run(c.name+" whose answer is lost is unknown, in mode "+c.mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			ctx, leave := context.WithCancel(e.ctx(33)) // a caller that has left is not settled for long
			defer leave()
			pool, arm := dropsReplies(t, c.word, c.mode, leave)
			g := e.by(pool)
			door := everyDoor(e.env, g)[c.name]
			require.NoError(t, door(e.ctx(33), "before"))
			arm.Store(true)
			var h hooktest.Record
			err := door(h.Listen(ctx), "applied")
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.Equal(t, []string{c.steps}, h.Transactions())
			if c.name != "Update" || c.mode != pgx.QueryExecModeDescribeExec { // there COMMIT is described first, and this reply is lost
				e.await("the write", func() bool { return e.writer() == "applied" })
			}
		})
	}
	inEnv(t, "a claim whose reply is lost is unknown, and can be repeated", func(t *testing.T, e *env) {
		pool, arm := dropsReplies(t, "h34", pgx.QueryExecModeExec, func() {})
		g := e.by(pool)
		tok := token.Token{Resource: resource, Number: 34, Holder: "h34"}
		require.NoError(t, g.Admit(e.bounded(), token.Token{Resource: resource, Number: 33, Holder: "h33"}))
		arm.Store(true)
		require.ErrorIs(t, g.Admit(e.bounded(), tok), guard.ErrUnknown)
		require.NoError(t, e.guard.Admit(e.bounded(), tok))
	})
	for _, name := range []string{"Update", "UpdateAll", "On.Exec", "On.Query", "On.QueryRow", "On.SendBatch", "On.CopyFrom"} {
		inEnv(t, name+" whose claim's answer is lost was not sent, and says so", func(t *testing.T, e *env) {
			pool, arm := dropsReplies(t, "synchronous_commit", pgx.QueryExecModeExec, func() {}) // only of the claim
			door := doors(e, e.by(pool))[name]
			require.NoError(t, door(e.ctx(33), "before"))
			if name == "On.CopyFrom" { // its own DELETE goes before it
				e.exec("DELETE FROM accounts WHERE id = 42")
				door = func(ctx context.Context, writer string) error {
					_, err := e.by(pool).On(resource).CopyFrom(ctx, pgx.Identifier{e.schema, "accounts"},
						[]string{"id", "writer"}, pgx.CopyFromRows([][]any{{int64(42), writer}}))
					return err
				}
			}
			arm.Store(true)
			err := door(e.ctx(34), "after")
			require.Error(t, err)
			require.Empty(t, outcomes(err), "%v", err)
			e.await("the mark", func() bool { return e.mark(resource) == "34 h34" })
			arm.Store(false)
			require.NoError(t, door(e.ctx(34), "after"), "the claim that arrived is its own")
			require.Equal(t, "after", e.writer())
		})
	}
	inEnv(t, "what fails before the commit was sent is an ordinary error", func(t *testing.T, e *env) {
		pool, arm := dropsReplies(t, "inside", pgx.QueryExecModeExec, func() {})
		g := e.by(pool)
		ctx := e.ctx(33)
		err := g.Update(ctx, resource, func(tx pgx.Tx) error { arm.Store(true); return e.write(ctx, "inside")(tx) })
		require.Error(t, err)
		require.Empty(t, outcomes(err))
		err = doors(e, g)["On.Exec"](ctx, "no connection to be had")
		require.ErrorContains(t, err, "no server")
		require.Empty(t, outcomes(err))
	})
}

// A session that is ended while its COMMIT is being flushed commits, and replies with
// COMMIT and FATAL. commit_delay prolongs the flush. The log entry of the duration is
// where the server processes the termination. The guard settles the commit.
func TestEndedInTheMiddleOfItsCommit(t *testing.T) {
	t.Parallel()
	e := envOn(t, testenv.SparePostgres(t).URL())
	e.admitted(33)
	config := e.pool.Config()
	var dials atomic.Int64
	pgtest.Wrap(config, func(conn net.Conn) (net.Conn, error) { dials.Add(1); return conn, nil })
	set := config.ConnConfig.RuntimeParams
	set["log_min_duration_statement"], set["commit_delay"], set["commit_siblings"] = "0", "100000", "0"
	slow, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(slow.Close)
	guarded := &sqlguard.Guard{DB: slow, IdleTimeout: patient}
	e.await("an end behind the commit, and before its answer", func() bool {
		ctx, process := e.ctx(33), make(chan uint32, 1)
		e.exec("UPDATE accounts SET writer = ''")
		var before int64
		late := async(func() error {
			return guarded.Update(ctx, resource, func(tx pgx.Tx) error {
				before = dials.Load()
				process <- tx.Conn().PgConn().PID()
				return e.write(ctx, "A")(tx)
			})
		})
		pid := <-process
		e.await("the commit", func() bool {
			return len(late) > 0 || query[bool](e, "SELECT query = 'commit' AND state = 'active' FROM pg_stat_activity WHERE pid = $1", pid)
		})
		time.Sleep(10 * time.Millisecond) // the server is past its last check, and flushes
		e.exec("SELECT pg_terminate_backend($1)", pid)
		if err := await(t, late); err != nil { // it was too early
			require.Equal(t, []error{guard.ErrEvicted}, outcomes(err))
			require.Empty(t, e.writer())
			return false
		}
		require.Equal(t, "A", e.writer())
		settled := dials.Load() > before // if not, it was too late: the session was idle
		slow.Reset()
		return settled
	})
}

// hazard G26
func TestAdmitIsDurable(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), spare.URL())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	testenv.Migrate(t, spare.URL())

	mark := func(resource string) (number int64) {
		require.NoError(t, connect().QueryRow(t.Context(),
			"SELECT coalesce((SELECT number FROM fencepost.marks WHERE resource = $1), 0)", resource).Scan(&number))
		return number
	}

	// raised raises the mark in each way in a session that commits asynchronously,
	// crashes the server, and returns the remaining mark.
	raised := func(resource string, raise func(conn *pgx.Conn) int64) (want, left int64) {
		conn := connect()
		_, err := conn.Exec(t.Context(), "SET synchronous_commit = off")
		require.NoError(t, err)
		want = raise(conn)
		spare.Crash()
		return want, mark(resource)
	}
	lost := 0
	// after commits one more mark asynchronously: the twin.
	after := func(conn *pgx.Conn, number int64) {
		_, err := conn.Exec(t.Context(), "SELECT fencepost.admit('plain', $1, 'h')", number)
		require.NoError(t, err)
	}
	for round := int64(0); lost == 0; round++ { // the twin, a plain admit, must be lost
		want, left := raised("admitted", func(conn *pgx.Conn) int64 {
			require.NoError(t, (&sqlguard.Guard{DB: conn}).Admit(t.Context(), token.Token{Resource: "admitted", Number: 33 + round, Holder: "h"}))
			after(conn, 100+2*round)
			return 33 + round
		})
		require.Equal(t, want, left, "Admit, round %d", round)
		want, left = raised("minted", func(conn *pgx.Conn) int64 {
			tok, err := mintedToken((&sqlguard.Guard{DB: conn}).Mint(t.Context(), "minted", "h"))
			require.NoError(t, err)
			after(conn, 101+2*round)
			return tok.Number
		})
		require.Equal(t, want, left, "Mint, round %d", round)
		want, left = raised("raised before", func(conn *pgx.Conn) int64 {
			_, err := conn.Exec(t.Context(), "SELECT fencepost.admit('raised before', $1, 'h')", 33+round)
			require.NoError(t, err)
			require.NoError(t, (&sqlguard.Guard{DB: conn}).Admit(t.Context(), token.Token{Resource: "raised before", Number: 33 + round, Holder: "h"}))
			return 33 + round
		})
		require.Equal(t, want, left, "Admit of a mark that was raised asynchronously, round %d", round)
		if mark("plain") < 101+2*round {
			lost++
		}
	}
}

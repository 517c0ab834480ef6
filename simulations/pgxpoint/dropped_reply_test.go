package pgxpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// With a guard, each transaction is reported once, under one key.
func TestUnderAGuard(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, mode)
			g := e.guard()
			tok := token.Token{Resource: "notes", Number: 33, Holder: "a"}
			note := e.sql("INSERT INTO %s.notes (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET text = 'x'")
			write := func(ctx context.Context) func(pgx.Tx) error {
				return func(tx pgx.Tx) error { return exec(ctx, tx, note) }
			}
			for _, c := range []struct {
				name   string
				number int64
				do     func(ctx context.Context) error
				is     error
				steps  []string
			}{
				{"Update, of a token that is new", 33, func(ctx context.Context) error { return g.Update(ctx, "notes", write(ctx)) },
					nil, []string{"begin undone begin admitted statement commit applied", "begin undone"}},
				{"Update", 33, func(ctx context.Context) error { return g.Update(ctx, "notes", write(ctx)) },
					nil, []string{"begin admitted statement commit applied"}},
				{"Update, that lasts", 33, func(ctx context.Context) error {
					return g.Update(ctx, "notes", func(tx pgx.Tx) error { time.Sleep(150 * time.Millisecond); return write(ctx)(tx) })
				}, nil, []string{"begin admitted statement commit applied"}},
				{"Update, whose fn fails", 33, func(ctx context.Context) error { return g.Update(ctx, "notes", func(pgx.Tx) error { return errMine }) },
					errMine, []string{"begin admitted undone"}},
				{"Update, refused", 32, func(ctx context.Context) error { return g.Update(ctx, "notes", write(ctx)) },
					guard.ErrStale, []string{"begin undone"}},
				{"On", 33, func(ctx context.Context) error { _, err := g.On("notes").Exec(ctx, note); return err },
					nil, []string{"begin applied"}},
				{"Admit", 33, func(ctx context.Context) error { return g.Admit(ctx, tok) }, nil, []string{"begin undone"}},
				{"Join", 33, func(ctx context.Context) error {
					return pgx.BeginFunc(ctx, e.traced, func(tx pgx.Tx) error {
						if err := g.Join(ctx, tx, "notes"); err != nil {
							return err
						}
						return write(ctx)(tx)
					})
				}, nil, []string{"begin statement admitted statement commit applied"}},
				{"On, in a transaction", 33, func(ctx context.Context) error {
					return pgx.BeginFunc(ctx, e.traced, func(tx pgx.Tx) error {
						_, err := (&sqlguard.Guard{DB: tx, Schema: e.schema}).On("notes").Exec(ctx, note)
						return err
					})
				}, nil, []string{"begin statement commit applied"}},
			} {
				t.Run(c.name, func(t *testing.T) {
					var h hooktest.Record
					ctx := token.NewContext(t.Context(), token.Token{Resource: "notes", Number: c.number, Holder: "a"})
					require.ErrorIs(t, c.do(h.Listen(ctx)), c.is)
					require.Equal(t, c.steps, h.Transactions())
				})
			}
		})
	}
}

// A transaction that the caller has begun under another context is the caller's, also
// if its first statement with a listener is the guard's.
func TestJoinInATransactionThatWasBegunUnheard(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeCacheStatement)
	g := e.guard()
	var h hooktest.Record
	ctx := h.Listen(token.NewContext(t.Context(), token.Token{Resource: "notes", Number: 33, Holder: "a"}))
	require.NoError(t, pgx.BeginFunc(t.Context(), e.traced, func(tx pgx.Tx) error {
		if err := g.Join(ctx, tx, "notes"); err != nil {
			return err
		}
		return exec(ctx, tx, e.sql("INSERT INTO %s.notes (id) VALUES (1)"))
	}))
	require.Equal(t, []string{"statement", "begin admitted statement commit applied"}, h.Transactions()) // the first before its transaction was known
}

// stdsql reports its admission under the *sql.Tx. The tracer notes that this is in its
// transaction.
func TestAGuardOverDatabaseSQLIsNoted(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeCacheStatement)
	db := stdlib.OpenDBFromPool(e.traced)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	g := &stdsql.Guard{DB: db, Schema: e.schema}
	var h hooktest.Record
	ctx := h.Listen(token.NewContext(t.Context(), token.Token{Resource: "notes", Number: 33, Holder: "a"}))
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, g.Join(ctx, tx, "notes"))
	_, err = tx.ExecContext(ctx, e.sql("INSERT INTO %s.notes (id) VALUES (1)"))
	require.NoError(t, errors.Join(err, tx.Commit()))
	require.Contains(t, h.Notes, failpoint.Joined{Key: h.Keys[0]})
}

// The connection fails after a COMMIT whose reply a simulation drops. The caller gets the
// error after the row was written.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, mode)
			g := e.guard()
			tok := token.Token{Resource: "notes", Number: 33, Holder: "a"}
			require.NoError(t, g.Admit(t.Context(), tok))
			ctx := token.NewContext(context.WithValue(t.Context(), schemaKey{}, e.schema), tok)
			insert := e.sql("INSERT INTO %s.notes (id) VALUES (1)")
			for name, c := range map[string]struct {
				do    way
				steps string
				kept  bool // pgx reads other replies before
			}{
				"Exec":     {ways["Exec"].do, "begin unknown", false},
				"QueryRow": {ways["QueryRow"].do, "begin unknown", false},
				"Exec, with an argument": {func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
					_, err := pool.Exec(ctx, e.sql("INSERT INTO %s.notes (id) VALUES ($1)"), 1)
					return err
				}, "begin unknown", false},
				"QueryRow, with an argument": {func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
					return pool.QueryRow(ctx, e.sql("INSERT INTO %s.notes (id) VALUES ($1) RETURNING id"), 1).Scan(nil)
				}, "begin unknown", false},
				"a batch":               {ways["a batch"].do, "begin unknown", mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol},
				"COPY":                  {ways["COPY"].do, "begin unknown", true},
				"COPY in a transaction": {ways["COPY in a transaction"].do, "begin statement commit unknown", false},
				"a transaction":         {ways["a transaction"].do, "begin statement statement commit unknown", false},
				"a transaction that Join has admitted": {in(func(ctx context.Context, tx pgx.Tx, insert string) error {
					if err := g.Join(ctx, tx, "notes"); err != nil {
						return err
					}
					return exec(ctx, tx, insert)
				}), "begin statement admitted statement commit unknown", false},
			} {
				t.Run(name, func(t *testing.T) {
					for range 2 {
						h := hooktest.Record{DropReplies: true}
						err := c.do(h.Listen(ctx), e.traced, insert)
						require.EqualValues(t, 1, e.clear(), "it is applied when the caller gets the error")
						if c.kept {
							require.NoError(t, err)
							require.Empty(t, h.ReplyKeys)
							continue
						}
						require.Error(t, err)
						require.Equal(t, []string{c.steps}, h.Transactions())
						require.Equal(t, []any{h.Keys[0]}, h.ReplyKeys)

						for range 2 { // also with the prepared statement
							var kept hooktest.Record
							require.NoError(t, c.do(kept.Listen(ctx), e.traced, insert), "the pool is usable")
							require.EqualValues(t, 1, e.clear())
							require.Len(t, kept.ReplyKeys, 1)
						}
					}
				})
			}
		})
	}
}

// pgx reads during a write that takes longer than 15 ms, and may leave that read pending
// after the reply has been read.
func TestALostAnswerBehindASlowWrite(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeExec)
	conn, err := e.traced.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	e.slow.Store(true)
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	h := hooktest.Record{DropReplies: true}
	_, err = conn.Exec(h.Listen(t.Context()), e.sql("INSERT INTO %s.notes (id) VALUES (1)"))
	require.Error(t, err)
	require.Equal(t, 1, e.notes())
}

// A connection whose statement was not sent remains usable.
func TestALostAnswerToWhatWasNotSent(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeExec)
	conn, err := e.traced.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := hooktest.Record{DropReplies: true}
	_, err = conn.Exec(h.Listen(ctx), e.sql("INSERT INTO %s.notes (id) VALUES (1)"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = conn.Exec(t.Context(), e.sql("INSERT INTO %s.notes (id) VALUES (2)"))
	require.NoError(t, err)
	require.Equal(t, 1, e.notes())
}

// clear deletes the notes, and returns how many there were.
func (e *env) clear() int64 {
	e.t.Helper()
	tag, err := e.plain.Exec(e.t.Context(), e.sql("DELETE FROM %s.notes"))
	require.NoError(e.t, err)
	return tag.RowsAffected()
}

func TestNoAnswerIsLostOfWhatDoesNotCommitAWrite(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, mode)
			for _, name := range []string{
				"a read", "a ping", "nothing", "a transaction that only reads", "a transaction that is rolled back",
				"a transaction that is rolled back under another context", "a transaction that the pool finds open",
			} {
				h := hooktest.Record{DropReplies: true}
				err := ways[name].do(h.Listen(t.Context()), e.traced, e.sql("INSERT INTO %s.notes (id) VALUES (1)"))
				require.Equal(t, ways[name].fails, err != nil, "%s: %v", name, err)
				require.Empty(t, h.ReplyKeys, name)
				require.Equal(t, ways[name].steps, h.Transactions(), name)
				require.Zero(t, e.notes(), name)
			}
		})
	}
}

// If a guard has begun the transaction, the guard drops a reply, and the tracer does not.
func TestUnderAGuardOneAnswerIsLost(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeCacheStatement)
	g := e.guard()
	tok := token.Token{Resource: "notes", Number: 33, Holder: "a"}
	h := hooktest.Record{DropReplies: true}
	ctx := h.Listen(token.NewContext(t.Context(), tok))
	require.NoError(t, g.Admit(ctx, tok))
	require.Error(t, g.Update(ctx, "notes", func(tx pgx.Tx) error { return exec(ctx, tx, e.sql("INSERT INTO %s.notes (id) VALUES (1)")) }))
	_, err := g.On("notes").Exec(ctx, e.sql("INSERT INTO %s.notes (id) VALUES (2)"))
	require.Error(t, err)
	require.Len(t, h.ReplyKeys, 2)
	require.Equal(t, 2, e.notes())
	require.Equal(t, []string{"begin undone", "begin admitted statement commit unknown", "begin unknown"}, h.Transactions())
}

// A statement that the server refuses is reported as refused, although its reply was to
// be dropped.
func TestALostAnswerToARefusal(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeCacheStatement)
	h := hooktest.Record{DropReplies: true}
	ctx := context.WithValue(h.Listen(t.Context()), schemaKey{}, e.schema)
	require.Error(t, ways["a constraint that COMMIT looks at"].do(ctx, e.traced, ""))
	require.Zero(t, e.notes())
	require.Equal(t, []string{"begin statement commit unknown"}, h.Transactions())
	require.NoError(t, e.traced.Ping(t.Context()))
}

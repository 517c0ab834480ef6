package sqlpoint_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// droppable are the ways whose one reply can be dropped, with their steps then.
var droppable = map[string]string{
	"Exec": "begin unknown", "a prepared statement": "begin unknown",
	"QueryRow": "begin unknown", "a prepared query": "begin unknown",
	"a transaction":               "begin statement statement commit unknown",
	"a transaction by statements": "begin statement commit unknown",
}

var all = map[string]func(t *testing.T) env{"SQLite": onSQLite, "PostgreSQL": onPostgres, "MariaDB": onMariaDB}

// The write is there, and its caller gets an error.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	for name, newEnv := range all {
		t.Run("on "+name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			id := 0
			for name, steps := range droppable {
				t.Run(name, func(t *testing.T) {
					id++
					h, before := hooktest.Record{DropReplies: true}, e.notes(t)
					require.ErrorIs(t, ways[name].do(h.Listen(t.Context()), e.traced, e.insert(id)), failpoint.ErrLost)
					require.Equal(t, 1, e.notes(t)-before, "it is applied")
					require.Equal(t, []string{steps}, h.Transactions())
					require.Equal(t, []any{h.Keys[0]}, h.ReplyKeys)
					require.Zero(t, e.traced.Stats().InUse)

					id++
					var kept hooktest.Record
					require.NoError(t, ways[name].do(kept.Listen(t.Context()), e.traced, e.insert(id)), "the pool is usable")
					require.Len(t, kept.ReplyKeys, 1)
				})
			}
			for _, name := range []string{"a read", "a ping", "a transaction that only reads", "a transaction that is rolled back", "a transaction that is rolled back by a statement"} {
				h := hooktest.Record{DropReplies: true}
				id++
				err := ways[name].do(h.Listen(t.Context()), e.traced, e.insert(id))
				require.Equal(t, ways[name].fails, err != nil, "%s: %v", name, err)
				require.Empty(t, h.ReplyKeys, name)
			}
		})
	}
}

// After Join the tracer drops the reply; in Update and in a claim the guard does.
func TestALostAnswerBesideAGuard(t *testing.T) {
	t.Parallel()
	for name, newEnv := range all {
		t.Run("on "+name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			g := e.guard()
			h := hooktest.Record{DropReplies: true}
			tok := token.Token{Resource: "notes", Number: 33, Holder: "a"}
			ctx := h.Listen(token.NewContext(t.Context(), tok))
			require.NoError(t, g.Admit(ctx, tok))
			require.Empty(t, h.ReplyKeys)
			h.Steps, h.Keys = nil, nil
			require.ErrorIs(t, inTx(ctx, e.traced, func(tx *sql.Tx) error {
				return errors.Join(g.Join(ctx, tx, "notes"), run(ctx, tx, e.insert(1)))
			}), failpoint.ErrLost)
			require.Equal(t, 1, e.notes(t))
			require.Equal(t, []failpoint.Step{failpoint.Begin, failpoint.Statement, failpoint.Admitted, failpoint.Statement, failpoint.Commit, failpoint.Unknown}, h.Steps)
			require.Len(t, h.ReplyKeys, 1)

			h.ReplyKeys, h.Steps, h.Keys = nil, nil, nil
			err := g.Update(ctx, "notes", func(tx *sql.Tx) error { return run(ctx, tx, e.insert(2)) })
			require.Equal(t, 2, e.notes(t))
			if g.Dialect == stdsql.SQLite {
				require.NoError(t, err)
				require.Empty(t, h.ReplyKeys, "no reply is dropped")
				return
			}
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.Len(t, h.ReplyKeys, 1)
			require.Equal(t, []string{"begin admitted statement commit unknown"}, h.Transactions())
			require.NoError(t, e.traced.PingContext(context.Background()))
		})
	}
}

package sqlguard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

var setWriter = rowguard.Set{"writer": "x"}

// hazard G6
func TestAMissingRowIsNotStale(t *testing.T) {
	t.Parallel()
	t.Run("no row and no newer mark is ErrRowNotFound, by every door", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("DELETE FROM accounts")
		ctx := e.ctx(33)
		protected := *e.accounts
		protected.Protected = true
		for name, err := range map[string]error{
			"Update": e.accounts.Update(ctx, 42, setWriter), "Delete": e.accounts.Delete(ctx, 42), "Explain": e.accounts.Explain(ctx, 42),
			"protected": protected.Update(ctx, 42, setWriter),
		} {
			require.Equal(t, []error{guard.ErrRowNotFound}, outcomes(err), name)
			require.ErrorContains(t, err, "account/42", name)
		}
	})
	t.Run("the twin, for which 0 rows are a refusal, calls it stale", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("DELETE FROM accounts")
		naive := func(number int64, holder string) error {
			tag, err := e.pool.Exec(t.Context(), e.sql(`UPDATE accounts SET last_token = $1, last_holder = $2
				WHERE id = 42 AND (last_token < $1 OR last_token = $1 AND last_holder = $2)`), number, holder)
			if err == nil && tag.RowsAffected() == 0 {
				err = guard.ErrStale
			}
			return err
		}
		require.ErrorIs(t, naive(33, "h33"), guard.ErrStale, "the twin must be wrong")
		require.NotErrorIs(t, e.accounts.Update(e.ctx(33), 42, setWriter), guard.ErrStale)
	})
	t.Run("a row that was deleted under a newer token is stale, and not merely missing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		require.NoError(t, e.accounts.Delete(e.ctx(34), 42))
		require.ErrorIs(t, e.accounts.Update(e.ctx(33), 42, setWriter), guard.ErrStale)
		require.ErrorIs(t, e.accounts.Update(e.as(34, "impostor"), 42, setWriter), guard.ErrCollision)
		require.ErrorIs(t, e.accounts.Update(e.ctx(34), 42, setWriter), guard.ErrRowNotFound)
		require.ErrorIs(t, e.accounts.Update(e.ctx(35), 42, setWriter), guard.ErrRowNotFound)
	})
	t.Run("so is one whose mark was pruned, below the floor", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		require.NoError(t, e.accounts.Delete(e.ctx(34), 42))
		e.exec("DELETE FROM marks")
		e.exec("UPDATE " + e.schema + ".floor SET number = 35")
		require.ErrorIs(t, e.accounts.Update(e.ctx(34), 42, setWriter), guard.ErrStale)
		require.ErrorIs(t, e.accounts.Update(e.ctx(35), 42, setWriter), guard.ErrRowNotFound)
	})
}

// meanwhile runs a function between a statement and the query for its reason, with the
// context of the query.
type meanwhile struct {
	*pgx.Conn
	do    func(context.Context)
	batch int
}

func (b *meanwhile) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if b.batch++; b.batch == 2 {
		b.do(ctx)
	}
	return b.Conn.SendBatch(ctx, batch)
}

func TestAReasonThatHasGone(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	conn, err := e.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	asked := func(do func()) error {
		e.exec("DELETE FROM accounts WHERE id = 42")
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = &meanwhile{Conn: conn.Conn(), do: func(context.Context) { do() }} })).Update(e.ctx(33), 42, setWriter)
	}
	t.Run("a row that was inserted meanwhile is written after all, with a mark and without", func(t *testing.T) {
		require.NoError(t, asked(func() { e.exec("INSERT INTO accounts (id, last_token) VALUES (42, 1)") }))
		require.NoError(t, asked(func() { e.exec("INSERT INTO accounts (id) VALUES (42)") }))
	})
	t.Run("one that a trigger passes over may have been written elsewhere", func(t *testing.T) {
		e.exec("CREATE FUNCTION " + e.schema + ".no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
		e.exec("CREATE TRIGGER no BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".no()")
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(e.accounts.Update(e.ctx(34), 42, setWriter)))
	})
	t.Run("a failed query for the reason promises only that nothing was written", func(t *testing.T) {
		ctx, leave := context.WithCancel(e.ctx(33))
		e.exec("DELETE FROM accounts WHERE id = 42")
		ends := func(asking context.Context) { leave(); <-asking.Done() } // with a delay
		accounts := e.table(e.with(func(g *sqlguard.Guard) { g.DB = &meanwhile{Conn: conn.Conn(), do: ends} }))
		err := accounts.Update(ctx, 42, setWriter)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, outcomes(err))
		require.False(t, errors.Is(err, guard.ErrRowNotFound))
	})
}

// hazard G9
func TestADeletedRowsMarkStays(t *testing.T) {
	t.Parallel()
	t.Run("an older token inserts nothing, upserts nothing and updates nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.claimed(33)
		require.NoError(t, e.accounts.Delete(e.ctx(34), 42))
		for name, err := range map[string]error{
			"Insert": e.accounts.Insert(e.ctx(33), 42, setWriter), "Upsert": e.accounts.Upsert(e.ctx(33), 42, setWriter),
			"Update": e.accounts.Update(e.ctx(33), 42, setWriter), "Delete": e.accounts.Delete(e.ctx(33), 42),
			"Claim": e.accounts.Claim(e.bounded(), tokenOf(33)),
		} {
			require.ErrorIs(t, err, guard.ErrStale, name)
		}
		require.Equal(t, "gone", e.row())
		require.NoError(t, e.accounts.Insert(e.ctx(35), 42, setWriter))
		require.Equal(t, "35 h35", e.row())
	})
	t.Run("also if the older one waits for the deletion to be committed", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"Insert", "Upsert"} {
			e := newRows(t)
			e.claimed(33)
			tx, err := e.pool.Begin(t.Context())
			require.NoError(t, err)
			b := e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx }))
			require.NoError(t, b.Delete(e.ctx(34), 42))
			ctx := e.ctx(33)
			late := async(func() error {
				if name == "Insert" {
					return e.accounts.Insert(ctx, 42, setWriter)
				}
				return e.accounts.Upsert(ctx, 42, setWriter)
			})
			e.awaitWaiting(1)
			require.NoError(t, tx.Commit(t.Context()))
			require.ErrorIs(t, await(t, late), guard.ErrStale, name)
			require.Equal(t, "gone", e.row(), name)
		}
	})
	t.Run("the twin, which reads the tombstone by its snapshot, inserts after it", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		tx, err := e.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), e.sql("DELETE FROM accounts WHERE id = 42"))
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), e.sql("INSERT INTO marks VALUES ($1, 34, 'h34')"), resource)
		require.NoError(t, err)
		ctx := e.bounded()
		late := async(func() error {
			_, err := e.pool.Exec(ctx, e.sql(`INSERT INTO accounts (id, writer, last_token, last_holder) SELECT 42, 'A', 33, 'h33'
				WHERE NOT EXISTS (SELECT FROM marks WHERE resource = $1 AND number > 33)`), resource)
			return err
		})
		e.awaitWaiting(1)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, await(t, late))
		require.Equal(t, "33 h33", e.row(), "the twin must be corrupted: the stale row is there")
	})
}

func TestInsert(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.claimed(33)
	err := e.accounts.Insert(e.ctx(34), 42, setWriter)
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "23505", pg.Code)
	require.Empty(t, outcomes(err))
	require.Equal(t, "33 h33", e.row(), "nothing was applied")
	require.NoError(t, e.accounts.Upsert(e.ctx(34), 42, nil), "a set may be empty")
	require.Equal(t, "34 h34", e.row())
	require.Empty(t, e.writer())
}

// The marks table admits the token that deletes, and the row does not.
func TestANewerRowIsNotDeleted(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	require.NoError(t, e.accounts.Update(e.ctx(35), 42, setWriter)) // unclaimed: only the row's mark is raised
	require.ErrorIs(t, e.accounts.Delete(e.ctx(34), 42), guard.ErrStale)
	require.ErrorIs(t, e.accounts.Upsert(e.ctx(34), 42, rowguard.Set{"writer": "stale"}), guard.ErrStale)
	require.ErrorIs(t, pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Delete(e.ctx(34), 42)
	}), guard.ErrStale)
	require.Equal(t, "x", e.writer())
	require.Equal(t, "35 h35", e.row())
}

// If the row does not take the mark, there is no fence: a claim must not report success.
func TestAClaimThatTheRowDoesNotTake(t *testing.T) {
	t.Parallel()
	trigger := func(e *env, body string) {
		e.exec("CREATE FUNCTION " + e.schema + ".keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body + " END $$")
		e.exec("CREATE TRIGGER keep BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".keep()")
	}
	for name, keep := range map[string]func(e *env){
		"a trigger that passes over updates that change no data": func(e *env) {
			trigger(e, "IF (NEW.balance, NEW.writer) = (OLD.balance, OLD.writer) THEN RETURN NULL; END IF; RETURN NEW;")
		},
		"a trigger that keeps columns it does not know": func(e *env) {
			trigger(e, "NEW.last_token := OLD.last_token; NEW.last_holder := OLD.last_holder; RETURN NEW;")
		},
		"a rule": func(e *env) { e.exec("CREATE RULE keep AS ON UPDATE TO accounts DO INSTEAD NOTHING") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			keep(e.env)
			err := e.accounts.Claim(e.bounded(), tokenOf(34))
			require.ErrorContains(t, err, "has not taken the mark")
			require.Empty(t, outcomes(err))
			require.Empty(t, e.mark(resource), "nor has the marks table")
			require.Equal(t, "1 h1", e.row())
		})
	}
	t.Run("the twin, which only checks for a newer mark, reports success", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		trigger(e.env, "IF (NEW.balance, NEW.writer) = (OLD.balance, OLD.writer) THEN RETURN NULL; END IF; RETURN NEW;")
		e.exec("UPDATE accounts SET last_token = 34, last_holder = 'h34' WHERE id = 42 AND last_token < 34")
		require.False(t, query[bool](e.env, "SELECT last_token > 34 FROM accounts WHERE id = 42"))
		require.NoError(t, e.accounts.Update(e.ctx(33), 42, setWriter), "and the stale write lands")
	})
	t.Run("an insert that a trigger takes elsewhere is not said to have done nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("CREATE TABLE ledger (id bigint)")
		e.exec("CREATE FUNCTION " + e.schema + ".keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ledger VALUES (NEW.id); RETURN NULL; END $$")
		e.exec("CREATE TRIGGER keep BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".keep()")
		tok := token.Token{Resource: "account/50", Number: 33, Holder: "h33"}
		err := e.accounts.Insert(token.NewContext(e.bounded(), tok), 50, nil)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
		require.Equal(t, 1, query[int](e.env, "SELECT count(*) FROM ledger"))
	})
}

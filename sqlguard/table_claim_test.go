package sqlguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// hazard G22
func TestAClaimFencesTheRow(t *testing.T) {
	t.Parallel()
	// B claims and reads, A writes a value that it read long ago, B writes.
	race := func(t *testing.T, claim func(e rowsEnv) func(context.Context, token.Token) error) (balance int64, a, b error) {
		e := newRows(t)
		e.claimed(33)
		require.NoError(t, claim(e)(e.bounded(), tokenOf(34)))
		read := e.balance()
		a = e.accounts.Update(e.ctx(33), 42, rowguard.Set{"balance": 50})
		b = e.accounts.Update(e.ctx(34), 42, rowguard.Set{"balance": read + 10})
		return e.balance(), a, b
	}
	t.Run("by Table.Claim the older write is refused", func(t *testing.T) {
		t.Parallel()
		balance, a, b := race(t, func(e rowsEnv) func(context.Context, token.Token) error { return e.accounts.Claim })
		require.ErrorIs(t, a, guard.ErrStale)
		require.NoError(t, b)
		require.Equal(t, int64(110), balance)
	})
	t.Run("the twin, a claim through the marks table alone, loses an acknowledged update", func(t *testing.T) {
		t.Parallel()
		balance, a, b := race(t, func(e rowsEnv) func(context.Context, token.Token) error { return e.guard.Admit })
		require.NoError(t, a, "the twin must let the stale write in")
		require.NoError(t, b)
		require.Equal(t, int64(110), balance, "A's 50 is lost")
	})
}

func TestClaim(t *testing.T) {
	t.Parallel()
	t.Run("raises both marks", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.claimed(33, 33, 34)
		require.Equal(t, "34 h34", e.row())
		require.Equal(t, "34 h34", e.mark(resource))
	})
	t.Run("that the row refuses raises neither", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		require.NoError(t, e.accounts.Update(e.ctx(35), 42, setWriter)) // unclaimed: only the row's mark is raised
		var refused []error
		accounts := e.table(e.with(func(g *sqlguard.Guard) {
			g.Hooks.Refused = func(_ context.Context, err error) { refused = append(refused, err) }
		}))
		err := accounts.Claim(e.bounded(), tokenOf(34))
		var stale *guard.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, guard.Mark{Number: 35, Holder: "h35"}, stale.Mark)
		require.ErrorIs(t, accounts.Claim(e.bounded(), token.Token{Resource: resource, Number: 35, Holder: "impostor"}), guard.ErrCollision)
		require.Len(t, refused, 2)
		require.Equal(t, "35 h35", e.row())
		require.Empty(t, e.mark(resource), "the marks table was rolled back")
	})
	t.Run("that the marks table refuses raises neither", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.admitted(35)
		require.ErrorIs(t, e.accounts.Claim(e.bounded(), tokenOf(34)), guard.ErrStale)
		require.Equal(t, "1 h1", e.row())
	})
	t.Run("of a row that is not there is one of its name", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("DELETE FROM accounts")
		e.claimed(34)
		require.ErrorIs(t, e.accounts.Insert(e.ctx(33), 42, nil), guard.ErrStale)
	})
	t.Run("differs from every other error", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		err := e.accounts.Claim(e.bounded(), token.Token{Resource: "job/42", Number: 33, Holder: "h"})
		require.ErrorContains(t, err, `job/42#33: the names of this table's rows begin with "account/"`)
		require.ErrorContains(t, e.accounts.Claim(e.bounded(), token.Token{Resource: "account/x", Number: 33, Holder: "h"}), "22P02")
		require.ErrorIs(t, e.accounts.Claim(e.bounded(), token.Token{Resource: resource, Number: 33}), token.ErrInvalid)
		require.NoError(t, pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
			require.ErrorContains(t, e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Claim(e.bounded(), tokenOf(33)), "must be durable")
			return nil
		}))
		require.Empty(t, e.mark("account/x"))
	})
	// hazard G26
	t.Run("waits for the disk if the session would not", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("CREATE FUNCTION " + e.schema + ".how() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.writer = current_setting('synchronous_commit'); RETURN NEW; END $$")
		e.exec("CREATE TRIGGER how BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".how()")
		pool, _ := wired(t, 1, withSetting("synchronous_commit", "off"))
		accounts := e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))
		require.NoError(t, accounts.Claim(e.bounded(), tokenOf(33)))
		require.Equal(t, "on", e.writer())
		require.NoError(t, accounts.Update(e.ctx(33), 42, rowguard.Set{"balance": 1}))
		require.Equal(t, "off", e.writer(), "a write is as durable as the session has it")
	})
}

// rowStore is a table with text keys as a guard.Store for any name: the name after its
// first letter is the key of a row, which is inserted for it.
type rowStore struct {
	env  *env
	rows rowguard.Table
}

func (s rowStore) Admit(ctx context.Context, tok token.Token) error {
	rows := s.rows
	if rows.Prefix = "incomplete"; tok.Validate() == nil {
		rows.Prefix = tok.Resource[:1]
		if _, err := s.env.pool.Exec(ctx, s.env.sql("INSERT INTO ledger VALUES ($1) ON CONFLICT DO NOTHING"), tok.Resource[1:]); err != nil {
			return err
		}
	}
	return rows.Admit(ctx, tok)
}

func TestATableIsAStore(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(t *testing.T) guard.Store {
		e := newEnv(t)
		e.exec("CREATE TABLE ledger (id text PRIMARY KEY, last_token bigint NOT NULL DEFAULT 0, last_holder text NOT NULL DEFAULT '')")
		return rowStore{e, rowguard.Table{Guard: e.guard, Name: pgx.Identifier{e.schema, "ledger"}}}
	})
}

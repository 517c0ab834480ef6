package rowguard_test

import (
	"context"
	"testing"
	"time"

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
	for name, c := range map[string]struct {
		claim func(e env) func(context.Context, token.Token) error
		late  error
	}{
		"by Table.Claim the older write is refused": {func(e env) func(context.Context, token.Token) error { return e.Claim }, guard.ErrStale},
		"the twin, a claim through the marks table alone, lets the stale write in, which is then lost": {
			func(e env) func(context.Context, token.Token) error { return e.Guard.Admit }, nil},
	} {
		inEnv(t, name, func(t *testing.T, e env) {
			e.claimed(33)
			require.NoError(t, c.claim(e)(e.base, tokenOf(34)))
			const balance = "SELECT balance FROM fence.accounts WHERE id = 42"
			read := get[int64](e, balance)
			require.ErrorIs(t, e.Update(e.ctx(33), 42, rowguard.Set{"balance": 50}), c.late)
			require.NoError(t, e.Update(e.ctx(34), 42, rowguard.Set{"balance": read + 10}))
			require.Equal(t, int64(110), get[int64](e, balance))
		})
	}
}

func TestAClaimThatIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, e.Update(e.ctx(35), 42, x)) // unclaimed: only the row's mark is raised
	var stale *guard.StaleError
	require.ErrorAs(t, e.Claim(e.base, tokenOf(34)), &stale)
	require.Equal(t, guard.Mark{Number: 35, Holder: "h35"}, stale.Mark)
	for says, tok := range map[string]token.Token{
		`job/42#33: the names of this table's rows begin with "account/"`: {Resource: "job/42", Number: 33, Holder: "h"},
		"22P02": {Resource: "account/x", Number: 33, Holder: "h"},
	} {
		require.ErrorContains(t, e.Claim(e.base, tok), says)
	}
	require.ErrorIs(t, e.Claim(e.base, token.Token{Resource: resource, Number: 33}), token.ErrInvalid)
	require.ErrorContains(t, e.over(e.begin("")).Claim(e.base, tokenOf(36)), "must be durable")
	require.Zero(t, get[int](e, "SELECT count(*) FROM fence.marks"))
}

// hazard G26
func TestAClaimWaitsForTheDiskIfTheSessionWouldNot(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.trigger("UPDATE", "NEW.writer = current_setting('synchronous_commit'); RETURN NEW;")
	rows := e.over(e.connect(1, pgx.QueryExecModeCacheStatement, "synchronous_commit", "off"))
	require.NoError(t, rows.Claim(e.base, tokenOf(33)))
	require.Equal(t, "on", e.writer())
	require.NoError(t, rows.Update(e.ctx(33), 42, rowguard.Set{"balance": 1}))
	require.Equal(t, "off", e.writer(), "a write is as durable as the session has it")
}

// hazard G8
func TestAPausedTransactionOfATableIsEvicted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.claimed(33)
	tx := e.begin(pgx.ReadCommitted)
	require.NoError(t, e.over(tx, func(g *sqlguard.Guard) { g.IdleTimeout = -1 }).Update(e.ctx(33), 42, x)) // and here its holder is paused
	const short = 200 * time.Millisecond
	newer := e.over(e.pool, func(g *sqlguard.Guard) { g.IdleTimeout = short })
	require.NoError(t, newer.Claim(e.base, tokenOf(34)))
	require.Error(t, tx.Commit(e.base))
	require.Equal(t, "34 h34", e.row())

	twin := e.begin("") // its hand-written statement was never admitted
	e.run(twin, "UPDATE fence.accounts SET writer = 'A' WHERE id = 42")
	done := make(chan error, 1)
	go func() { done <- newer.Claim(e.base, tokenOf(35)) }()
	e.waiting(1)
	time.Sleep(3 * short)
	require.Empty(t, done, "the claim waits for the twin")
	require.NoError(t, twin.Rollback(e.base))
	require.NoError(t, <-done)
}

// A row that was inserted without a Table, or whose columns were just added, carries no
// mark. The mark in the marks table counts for it.
//
// hazard G22
func TestARowWithoutAMark(t *testing.T) {
	t.Parallel()
	for _, none := range []string{"0", "NULL"} {
		inEnv(t, "of "+none+" is judged by the marks table", func(t *testing.T, e env) {
			e.exec("ALTER TABLE fence.accounts ALTER last_token DROP NOT NULL; DELETE FROM fence.accounts WHERE id = 42")
			e.claimed(34)
			require.NoError(t, e.Guard.Update(e.ctx(34), resource, func(tx pgx.Tx) error {
				e.run(tx, "INSERT INTO fence.accounts (id, balance, last_token) VALUES (42, 100, "+none+")")
				return nil
			}))
			require.Equal(t, []error{guard.ErrStale}, outcomes(e.Update(e.ctx(33), 42, x)))
			own, err := e.Fence(e.ctx(33), 42)
			require.NoError(t, err)
			f := own.Clauses("a")
			require.Zero(t, e.exec("UPDATE fence.accounts AS a SET writer = 'stale', "+f.Set+" WHERE "+f.Where, f.Args...))
			require.Equal(t, []error{guard.ErrStale}, outcomes(e.Explain(e.ctx(33), 42)))
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(e.Explain(e.ctx(34), 42)))
			require.Empty(t, e.writer())

			require.Equal(t, int64(1), e.exec("UPDATE fence.accounts SET writer = 'stale' WHERE id = 42 AND (coalesce(last_token, 0) < 33 OR last_token = 33 AND last_holder = 'h33')"),
				"the twin, for which no mark is the least, must let the stale in")
			require.NoError(t, e.Update(e.ctx(34), 42, x))
			require.Equal(t, "34 h34 x", e.row())
		})
	}
}

func TestAFence(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	own, err := e.Fence(e.ctx(33), 42)
	require.NoError(t, err)
	f := own.Clauses("a")
	require.Equal(t, int64(1), e.exec("UPDATE fence.accounts AS a SET writer = 'x', "+f.Set+" WHERE "+f.Where, f.Args...))
	require.Empty(t, get[string](e, "SELECT writer FROM fence.accounts WHERE id = 43"), "it is for the row of its key alone")

	own, err = e.Fence(e.ctx(33), 43)
	require.ErrorIs(t, err, token.ErrMissing)
	require.Equal(t, rowguard.Clauses{Where: "(false)", Args: []any{7}}, own.Clauses("a", 7))
	require.ErrorIs(t, e.Explain(context.Background(), 42), token.ErrMissing)

	both := token.NewContext(e.ctx(33), token.Token{Resource: "account/43", Number: 7, Holder: "h7"})
	from, err := e.Fence(both, 42)
	require.NoError(t, err)
	to, err := e.Fence(both, 43)
	require.NoError(t, err)
	first := from.Clauses("a", 7)
	second := to.Clauses("b", first.Args...)
	require.Equal(t, 1, get[int](e, "SELECT count(*) FROM fence.accounts AS a, fence.accounts AS b WHERE $1::int = 7 AND "+first.Where+" AND "+second.Where, second.Args...), "two of one statement are numbered one after the other")
	require.Len(t, first.Args, 5, "the first one's are not written into")
}

// A row does not show when its mark was created, so Explain cannot distinguish a mark that
// the statement did not see from one that it did.
func TestAMarkThatIsCreatedBetweenTheStatementAndExplain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, between int64 }{ // the numbers of claims
		"by a sibling with the same token": {0, 33}, "under an older token": {0, 32}, "not if the row was claimed before": {33, 0},
	} {
		inEnv(t, name, func(t *testing.T, e env) {
			e.exec("UPDATE fence.accounts SET last_token = 0, last_holder = ''")
			withdraw := func() int64 {
				own, err := e.Fence(e.ctx(33), 42)
				require.NoError(t, err)
				f := own.Clauses("a", 60)
				return e.exec("UPDATE fence.accounts AS a SET balance = a.balance - $1, "+f.Set+" WHERE "+f.Where+" AND a.balance >= $1", f.Args...)
			}
			if c.before > 0 {
				e.claimed(c.before)
			} else {
				require.Zero(t, withdraw())
				require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(e.Explain(e.ctx(33), 42)), "without a writer in between")
				require.Zero(t, withdraw())
				e.claimed(c.between)
				require.Equal(t, []error{guard.ErrRowNotFound}, outcomes(e.Explain(e.ctx(33), 42)), "the documented exception")
			}
			require.Equal(t, int64(1), withdraw(), "the second try, or the first after a claim")
			require.Equal(t, int64(40), get[int64](e, "SELECT balance FROM fence.accounts WHERE id = 42"))
			require.Zero(t, withdraw())
			require.Equal(t, []error{guard.ErrRowNotFound}, outcomes(e.Explain(e.ctx(33), 42)), "exact: the balance is too low")
		})
	}
}

// rowStore is a table with text keys as a guard.Store for any name: the name after its
// first letter is the key of a row, which is inserted for it.
type rowStore struct {
	e    env
	rows rowguard.Table
}

func (s rowStore) Admit(ctx context.Context, tok token.Token) error {
	rows := s.rows
	if rows.Prefix = "incomplete"; tok.Validate() == nil {
		rows.Prefix = tok.Resource[:1]
		if _, err := s.e.pool.Exec(ctx, s.e.sql("INSERT INTO fence.ledger VALUES ($1) ON CONFLICT DO NOTHING"), tok.Resource[1:]); err != nil {
			return err
		}
	}
	return rows.Admit(ctx, tok)
}

func TestATableIsAStore(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(t *testing.T) guard.Store {
		e := newEnv(t)
		return rowStore{e, *e.keyed(e.pool, "text", "")}
	})
}

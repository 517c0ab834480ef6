package rowguard_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// verbs are the calls on account 42 of a Table.
var verbs = map[string]func(ctx context.Context, tok token.Token, e env) error{
	"Update":    func(ctx context.Context, _ token.Token, e env) error { return e.Update(ctx, 42, x) },
	"Protected": func(ctx context.Context, _ token.Token, e env) error { return e.protected().Update(ctx, 42, x) },
	"Insert":    func(ctx context.Context, _ token.Token, e env) error { return e.Insert(ctx, 42, x) },
	"Upsert":    func(ctx context.Context, _ token.Token, e env) error { return e.Upsert(ctx, 42, x) },
	"Raise":     func(ctx context.Context, _ token.Token, e env) error { return e.Upsert(ctx, 42, nil) },
	"Delete":    func(ctx context.Context, _ token.Token, e env) error { return e.Delete(ctx, 42) },
	"Explain":   func(ctx context.Context, _ token.Token, e env) error { return e.Explain(ctx, 42) },
	"Claim":     func(ctx context.Context, tok token.Token, e env) error { return e.Claim(ctx, tok) },
	"Admit":     func(ctx context.Context, tok token.Token, e env) error { return e.Guard.Admit(ctx, tok) },
	"DeleteInTx": func(ctx context.Context, _ token.Token, e env) error {
		return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return e.over(tx).Delete(ctx, 42) })
	},
}

// step is an SQL statement, or a verb with the tokens that make the call, one after the
// other: a number, and ! for an impostor. Each call has the same outcome: an outcome of
// the guard, nil, or the text of an ordinary error.
type step struct {
	call    string
	outcome any
}

func (s step) run(t *testing.T, e env) {
	t.Helper()
	words := strings.Fields(s.call)
	do, known := verbs[words[0]]
	if !known {
		e.exec(s.call)
		return
	}
	for _, word := range words[1:] {
		digits, impostor := strings.CutSuffix(word, "!")
		number, err := strconv.ParseInt(digits, 10, 64)
		require.NoError(t, err)
		ctx, tok := e.as(number, resource)
		if impostor {
			ctx, tok.Holder = e.impostor(number), "impostor"
		}
		err = do(ctx, tok, e)
		call := words[0] + " " + word
		switch want := s.outcome.(type) {
		case nil:
			require.NoError(t, err, call)
		case string:
			require.ErrorContains(t, err, want, call)
			require.Empty(t, outcomes(err), call)
		case error:
			require.ErrorIs(t, err, want, call)
			require.Len(t, outcomes(err), 1, call)
			if want == guard.ErrRowNotFound {
				require.ErrorContains(t, err, resource, call)
			}
			require.Equal(t, want == guard.ErrCollision, errors.Is(err, guard.ErrCollision), call)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	const (
		elsewhere = "INSERT INTO fence.ledger VALUES (NEW.id); RETURN NULL;"
		ignored   = "IF (NEW.balance, NEW.writer) = (OLD.balance, OLD.writer) THEN RETURN NULL; END IF; RETURN NEW;"
		kept      = "NEW.last_token := OLD.last_token; NEW.last_holder := OLD.last_holder; RETURN NEW;"
	)
	stale, collision, gone := guard.ErrStale, guard.ErrCollision, guard.ErrRowNotFound
	for name, c := range map[string]struct {
		trigger [2]string // of accounts: event and body
		steps   []step
		row     string // its mark and writer in the end
		mark    string // the mark in the marks table
	}{
		"a claim raises both marks": {steps: []step{{"Claim 33 33 34", nil}}, row: "34 h34", mark: "34 h34"},
		"a claim that the row refuses raises neither": {steps: []step{{"Update 35", nil}, // unclaimed: only the row's mark is raised
			{"Claim 34", stale}, {"Claim 35!", collision}}, row: "35 h35 x"},
		"a claim that the marks table refuses raises neither":   {steps: []step{{"Admit 35", nil}, {"Claim 34", stale}}, row: "1 h1", mark: "35 h35"},
		"a claim of a row that is not there is one of its name": {steps: []step{{"DELETE FROM fence.accounts", nil}, {"Claim 34", nil}, {"Insert 33", stale}}, row: "gone", mark: "34 h34"},
		"a claim past a trigger that ignores updates of no data": {trigger: [2]string{"UPDATE", ignored},
			steps: []step{{"Claim 34", "has not taken the mark"}}, row: "1 h1"},
		"a claim past a trigger that keeps columns it does not know": {trigger: [2]string{"UPDATE", kept},
			steps: []step{{"Claim 34", "has not taken the mark"}}, row: "1 h1"},
		"a claim past a rule": {steps: []step{{"CREATE RULE keep AS ON UPDATE TO fence.accounts DO INSTEAD NOTHING", nil},
			{"Claim 34", "has not taken the mark"}}, row: "1 h1"},
		"a row without a mark is claimed by its first update": {steps: []step{
			{"UPDATE fence.accounts SET last_token = 0, last_holder = ''", nil}, {"Update 33", nil}}, row: "33 h33 x", mark: "33 h33"},

		// hazard G6
		"no row and no newer mark": {steps: []step{{"DELETE FROM fence.accounts", nil},
			{"Update 33", gone}, {"Explain 33", gone}, {"Protected 33", gone}, {"Delete 33", gone}}, row: "gone", mark: "33 h33"},
		"a row that was deleted under a newer token is not merely missing": {steps: []step{{"Delete 34", nil},
			{"Update 33", stale}, {"Update 34!", collision}, {"Update 34 35", gone}}, row: "gone", mark: "34 h34"},
		"so is one whose mark was pruned, below the floor": {steps: []step{{"Delete 34", nil},
			{"DELETE FROM fence.marks", nil}, {"UPDATE fence.floor SET number = 35", nil}, {"Update 34", stale}, {"Update 35", gone}}, row: "gone"},
		"other conditions of a statement did not hold": {steps: []step{{"Update 33", nil},
			{"Explain 33", gone}, {"Explain 32", stale}, {"Explain 33!", collision}}, row: "33 h33 x"},

		// hazard G9
		"a deleted row's mark stays": {steps: []step{{"Claim 33", nil}, {"Delete 34", nil},
			{"Insert 33", stale}, {"Upsert 33", stale}, {"Update 33", stale}, {"Delete 33", stale}, {"Claim 33", stale},
			{"SELECT 1 / (1 - count(*)) FROM fence.accounts WHERE id = 42", nil}, {"Insert 35", nil}}, row: "35 h35 x", mark: "35 h35"},
		"an insert of a row that is there, and an empty set": {steps: []step{{"Claim 33", nil}, {"Insert 34", "23505"},
			{"SELECT 1 / count(*) FROM fence.accounts WHERE last_token = 33", nil}, {"Raise 34", nil}}, row: "34 h34", mark: "34 h34"},
		// The marks table admits the token that deletes, and the row does not.
		"a newer row is not deleted": {steps: []step{{"Update 35", nil}, {"Delete 34", stale}, {"Upsert 34", stale}, {"DeleteInTx 34", stale}}, row: "35 h35 x", mark: "34 h34"},

		"a trigger that passes over an update": {trigger: [2]string{"UPDATE", "RETURN NULL;"}, steps: []step{{"Update 34", guard.ErrUnknown}}, row: "1 h1"},
		"a trigger that inserts elsewhere": {trigger: [2]string{"INSERT", elsewhere}, steps: []step{{"CREATE TABLE fence.ledger (id bigint)", nil},
			{"DELETE FROM fence.accounts", nil}, {"Insert 33", guard.ErrUnknown}, {"SELECT 1 / count(*) FROM fence.ledger", nil}}, row: "gone", mark: "33 h33"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, refused, refusals := newEnv(t), 0, 0
			if c.trigger[0] != "" {
				e.trigger(c.trigger[0], strings.ReplaceAll(c.trigger[1], "fence.", e.sql("fence.")))
			}
			e.Guard.Hooks.Refused = func(context.Context, error) { refused++ }
			for _, s := range c.steps {
				s.run(t, e)
				if s.outcome == stale || s.outcome == collision {
					refusals += strings.Count(s.call, " ")
				}
			}
			require.Equal(t, c.row, e.row())
			require.Equal(t, c.mark, e.mark())
			require.Equal(t, refusals, refused, "the hook has each refusal")
		})
	}
}

// hazard G6
func TestTheTwinForWhich0RowsAreARefusalCallsAMissingRowStale(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("DELETE FROM fence.accounts")
	require.Zero(t, e.exec("UPDATE fence.accounts SET last_token = $1, last_holder = $2 WHERE id = 42 AND (last_token < $1 OR last_token = $1 AND last_holder = $2)", 33, "h33"),
		"the twin must be wrong: a naive guard returns ErrStale")
	require.NotErrorIs(t, e.Update(e.ctx(33), 42, x), guard.ErrStale)
}

// The twin of a claim that the row does not take only checks for a newer mark.
func TestTheTwinOfAClaimThatTheRowDoesNotTake(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.trigger("UPDATE", "IF (NEW.balance, NEW.writer) = (OLD.balance, OLD.writer) THEN RETURN NULL; END IF; RETURN NEW;")
	e.exec("UPDATE fence.accounts SET last_token = 34, last_holder = 'h34' WHERE id = 42 AND last_token < 34")
	require.False(t, get[bool](e, "SELECT last_token > 34 FROM fence.accounts WHERE id = 42"), "the twin reports success")
	require.NoError(t, e.Update(e.ctx(33), 42, x), "and the stale write lands")
}

// hazard G9
func TestAnInsertThatWaitsForADeletion(t *testing.T) {
	t.Parallel()
	for name, insert := range map[string]func(e env) error{
		"Insert": func(e env) error { return e.Insert(e.ctx(33), 42, x) },
		"Upsert": func(e env) error { return e.Upsert(e.ctx(33), 42, x) },
	} {
		inEnv(t, name, func(t *testing.T, e env) {
			e.claimed(33)
			tx := e.begin("")
			require.NoError(t, e.over(tx).Delete(e.ctx(34), 42))
			late := e.later(func() error { return insert(e) })
			e.waiting(1)
			require.NoError(t, tx.Commit(e.base))
			require.ErrorIs(t, late(), guard.ErrStale)
			require.Equal(t, "gone", e.row())
		})
	}
	inEnv(t, "the twin, which reads the tombstone by its snapshot, inserts after it", func(t *testing.T, e env) {
		tx := e.begin("")
		e.run(tx, "DELETE FROM fence.accounts WHERE id = 42")
		e.run(tx, "INSERT INTO fence.marks VALUES ($1, 34, 'h34')", resource)
		late := e.later(func() error {
			_, err := e.pool.Exec(e.base, e.sql(`INSERT INTO fence.accounts (id, writer, last_token, last_holder) SELECT 42, 'A', 33, 'h33'
				WHERE NOT EXISTS (SELECT FROM fence.marks WHERE resource = $1 AND number > 33)`), resource)
			return err
		})
		e.waiting(1)
		require.NoError(t, tx.Commit(e.base))
		require.NoError(t, late())
		require.Equal(t, "33 h33 A", e.row(), "the twin must be corrupted: the stale row is there")
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
	e := newEnv(t)
	conn, err := e.pool.Acquire(e.base)
	require.NoError(t, err)
	defer conn.Release()
	asked := func(ctx context.Context, do func(context.Context)) error {
		e.exec("DELETE FROM fence.accounts WHERE id = 42")
		return e.over(&meanwhile{Conn: conn.Conn(), do: do}).Update(ctx, 42, x)
	}
	for _, columns := range []string{"(id, last_token) VALUES (42, 1)", "(id) VALUES (42)"} {
		require.NoError(t, asked(e.ctx(33), func(context.Context) { e.exec("INSERT INTO fence.accounts " + columns) }),
			"a row that was inserted meanwhile is written after all, with a mark and without")
	}
	ctx, leave := context.WithCancel(e.ctx(33))
	err = asked(ctx, func(asking context.Context) { leave(); <-asking.Done() }) // with a delay
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, outcomes(err), "a failed query for the reason promises only that nothing was written")
}

func TestATableInATransaction(t *testing.T) {
	t.Parallel()
	inEnv(t, "writes there, admitted, for as long as it is not idle for too long", func(t *testing.T, e env) {
		tx := e.begin(pgx.ReadCommitted)
		require.NoError(t, e.over(tx, func(g *sqlguard.Guard) { g.IdleTimeout = 60e9 }).Update(e.ctx(33), 42, x))
		require.Empty(t, e.writer(), "not committed yet")
		var bound, admitted string
		require.NoError(t, tx.QueryRow(e.base, "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('fencepost.admitted')").Scan(&bound, &admitted))
		require.Equal(t, "1min", bound)
		require.Contains(t, admitted, "/account/42\n")
		require.NoError(t, tx.Commit(e.base))
		require.Equal(t, "33 h33 x", e.row())
	})
	inEnv(t, "is aborted if the marks table refuses", func(t *testing.T, e env) {
		e.claimed(34)
		tx := e.begin(pgx.ReadCommitted)
		require.ErrorIs(t, e.over(tx).Update(e.ctx(33), 42, x), guard.ErrStale)
		_, err := tx.Exec(e.base, "SELECT 1")
		require.ErrorContains(t, err, "25P02")
	})
	inEnv(t, "stays usable if only the row refuses, which has written nothing", func(t *testing.T, e env) {
		require.NoError(t, e.Update(e.ctx(34), 42, x))
		tx := e.begin(pgx.ReadCommitted)
		require.ErrorIs(t, e.over(tx).Update(e.ctx(33), 42, rowguard.Set{"writer": "stale"}), guard.ErrStale)
		require.NoError(t, tx.Commit(e.base))
		require.Equal(t, "x", e.writer())
	})
	// hazard G7
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		inEnv(t, "is retryable if its snapshot is older than the row, under "+string(level), func(t *testing.T, e env) {
			e.claimed(33)
			tx := e.begin(level)
			e.run(tx, "SELECT 1")
			require.NoError(t, e.Update(e.ctx(33), 42, x)) // a peer
			require.Equal(t, []error{guard.ErrRetryable}, outcomes(e.over(tx).Update(e.ctx(33), 42, x)))
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(e.over(e.begin(level)).Update(e.ctx(34), 42, x)))
		})
	}
}

// hazard G7
func TestAStaleUpdateUnderAFixedSnapshot(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pool := func() execer {
		return e.connect(1, pgx.QueryExecModeCacheStatement, "default_transaction_isolation", "serializable")
	}
	late, twin, tx := e.over(pool().(sqlguard.DB)), pool(), e.begin("")
	e.run(tx, "UPDATE fence.accounts SET last_token = 34, last_holder = 'h34' WHERE id = 42")
	ctx := e.ctx(33)
	waits := e.later(func() error { return late.Update(ctx, 42, x) })
	naive := e.later(func() error { // it treats 0 rows as stale, and every other error as a failure
		tag, err := twin.Exec(ctx, e.sql("UPDATE fence.accounts SET last_token = 33 WHERE id = 42 AND last_token <= 33"))
		if err == nil && tag.RowsAffected() == 0 {
			return guard.ErrStale
		}
		return err
	})
	e.waiting(2)
	require.NoError(t, tx.Commit(e.base))
	require.Equal(t, []error{guard.ErrRetryable}, outcomes(waits()), "40001, and not stale")
	require.Empty(t, outcomes(naive()), "the twin must take it for a failure of the server's")
	require.ErrorIs(t, late.Update(ctx, 42, x), guard.ErrStale, "the next run returns that")
}

func TestOutcomesOfAStatementByItself(t *testing.T) {
	t.Parallel()
	inEnv(t, "a caller that has left before it was sent has sent nothing", func(t *testing.T, e env) {
		ctx, leave := context.WithCancel(e.ctx(33))
		leave()
		err := e.Update(ctx, 42, x)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, outcomes(err))
		require.Equal(t, "1 h1", e.row())
	})
	for name, c := range map[string]struct {
		cause    error // of the end of the caller's context, or a lost lease
		outcomes []error
		row      string
	}{
		"a caller who leaves while it waits does not know": {context.Canceled, []error{guard.ErrUnknown}, "1 h1 B"},
		"a lease that is lost meanwhile decides nothing":   {&token.LostError{Token: tokenOf(33)}, nil, "33 h33 x"},
	} {
		inEnv(t, name, func(t *testing.T, e env) {
			tx := e.begin("")
			e.run(tx, "UPDATE fence.accounts SET writer = 'B' WHERE id = 42")
			ctx, leave := context.WithCancelCause(e.ctx(33))
			late := e.later(func() error { return e.Update(ctx, 42, x) })
			e.waiting(1)
			leave(c.cause)
			if c.outcomes != nil {
				require.Equal(t, c.outcomes, outcomes(late()))
			}
			require.NoError(t, tx.Commit(e.base))
			if c.outcomes == nil {
				require.NoError(t, late())
				require.Equal(t, c.row, e.row())
			}
		})
	}
	inEnv(t, "an error of pgx or of the server for the statement is an ordinary error", func(t *testing.T, e env) {
		e.exec("ALTER TABLE fence.accounts ADD twin bigint REFERENCES fence.accounts DEFERRABLE INITIALLY DEFERRED")
		closed := e.connect(1, pgx.QueryExecModeExec)
		closed.Close()
		atCommit := rowguard.Set{"twin": 7}
		for name, err := range map[string]error{
			"an argument that cannot be encoded": e.Update(e.ctx(33), 42, rowguard.Set{"balance": struct{}{}}),
			"a column that is not there":         e.Update(e.ctx(33), 42, rowguard.Set{"nowhere": 1}),
			"a constraint at the commit":         e.Update(e.ctx(33), 42, atCommit),
			"a closed pool":                      e.over(closed).Update(e.ctx(33), 42, x),
			"a wrapper, an argument":             e.wrapped().Update(e.ctx(33), 42, rowguard.Set{"balance": struct{}{}}),
			"a wrapper, at the commit":           e.wrapped().Update(e.ctx(33), 42, atCommit),
		} {
			require.Error(t, err, name)
			require.Empty(t, outcomes(err), "%s: %v", name, err)
		}
		var pg *pgconn.PgError
		require.ErrorAs(t, e.Update(e.ctx(33), 42, atCommit), &pg)
		require.Equal(t, "23503", pg.Code)
		require.Equal(t, "1 h1", e.row(), "nothing was applied")
	})
	inEnv(t, "a session that was ended may have committed first", func(t *testing.T, e env) {
		e.trigger("UPDATE", "PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); RETURN NEW;")
		for _, rows := range []*rowguard.Table{e.Table, e.wrapped()} {
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(rows.Update(e.ctx(33), 42, x)))
		}
	})
}

// wrapped returns the Table over a DB that exposes only SendBatch.
func (e env) wrapped() *rowguard.Table {
	conn, err := e.pool.Acquire(e.base)
	require.NoError(e.t, err)
	e.t.Cleanup(conn.Release)
	return e.over(wrapper{conn.Conn()})
}

package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// ahead is above every clock in the tests.
const ahead = 900_000_000_000_000

// clock returns the server's clock, in units of 10 µs, with a precision of at least 1 ms.
func (db *database) clock(t *testing.T) int64 {
	t.Helper()
	return one[int64](t, db, map[stdsql.Dialect]string{
		stdsql.Postgres: "SELECT floor(extract(epoch FROM clock_timestamp()) * 100000)::bigint",
		stdsql.MySQL:    "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10",
		stdsql.SQLite:   "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 100000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 100",
	}[db.dialect])
}

// floor returns the name of the floor's table.
func (db *database) floor() string {
	if db.dialect == stdsql.Postgres {
		return "floor"
	}
	return "fencepost_floor"
}

func (db *database) mint(t *testing.T, holder string) token.Token {
	t.Helper()
	tok, err := mintedToken(db.guard().Mint(t.Context(), account, holder))
	require.NoError(t, err)
	require.NoError(t, tok.Validate())
	require.Equal(t, token.Token{Resource: account, Number: tok.Number, Holder: holder}, tok)
	require.Equal(t, guard.Mark{Number: tok.Number, Holder: holder}, db.mark(t, account))
	return tok
}

// hazard R12
func TestMintRisesFromHolderToHolder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		begun := db.clock(t)
		first := db.mint(t, "a")
		require.GreaterOrEqual(t, first.Number, begun)
		require.LessOrEqual(t, first.Number, db.clock(t))
		second, again := db.mint(t, "b"), db.mint(t, "b")
		require.Greater(t, second.Number, first.Number)
		require.Greater(t, again.Number, second.Number, "of the same holder too")

		last, late := token.NewContext(t.Context(), again), token.NewContext(t.Context(), first)
		require.NoError(t, db.update(last, add(last, 10)))
		require.ErrorIs(t, db.update(late, add(late, 10)), guard.ErrStale)
		require.ErrorIs(t, db.guard().Admit(t.Context(), first), guard.ErrStale)
		other := again
		other.Holder = "c"
		require.ErrorIs(t, db.guard().Admit(t.Context(), other), guard.ErrCollision)
		require.Equal(t, 110, balance(t, db))
	})
}

func TestMintIsAboveWhatWas(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(ahead, "a"))
		require.Equal(t, int64(ahead+1), db.mint(t, "b").Number, "a mark in the future")
		require.ErrorIs(t, db.guard().Admit(t.Context(), tok(ahead+1, "a")), guard.ErrCollision, "the same number of another holder")

		run(t, db, fmt.Sprintf("UPDATE %s SET number = %d", db.floor(), ahead+50))
		require.Equal(t, int64(ahead+50), db.mint(t, "c").Number, "a mark below the floor")
		run(t, db, "DELETE FROM "+db.marks)
		require.Equal(t, int64(ahead+51), db.mint(t, "d").Number, "pruned")
		run(t, db, "DELETE FROM "+db.floor())
		run(t, db, "DELETE FROM "+db.marks)
		_, err := db.guard().Mint(t.Context(), account, "e")
		if db.dialect == stdsql.Postgres { // its function uses the clock
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, sql.ErrNoRows, "nothing is minted beside a floor that is lost")
		require.Zero(t, db.mark(t, account))
	})
}

func TestMintFindsNoNumberLeft(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(token.MaxNumber-1, "a"))
		require.Equal(t, int64(token.MaxNumber), db.mint(t, "b").Number)
		for _, holder := range []string{"b", "c"} {
			_, err := db.guard().Mint(t.Context(), account, holder)
			require.ErrorIs(t, err, token.ErrExhausted)
			require.ErrorContains(t, err, "stdsql: mint account/42")
			require.False(t, guard.IsRefusal(err))
			require.Equal(t, guard.Mark{Number: token.MaxNumber, Holder: "b"}, db.mark(t, account))
		}
		run(t, db, "DELETE FROM "+db.marks)
		run(t, db, fmt.Sprintf("UPDATE %s SET number = %d", db.floor(), token.MaxNumber))
		_, err := db.guard().Mint(t.Context(), account, "d")
		require.ErrorIs(t, err, token.ErrExhausted, "by the floor")
		require.Zero(t, db.mark(t, account))
	})
}

func TestMintOfNamesThatAreNone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		for _, names := range [][2]string{{"", "h"}, {account, ""}, {"a\nb", "h"}} {
			_, err := (&stdsql.Guard{}).Mint(t.Context(), names[0], names[1])
			require.ErrorIs(t, err, token.ErrInvalid, "nothing is sent")
			require.Error(t, inTx(t, db, func(tx *sql.Tx) error {
				_, err := db.guard().MintTx(t.Context(), tx, names[0], names[1])
				require.ErrorIs(t, err, token.ErrInvalid)
				return write(t.Context(), tx, 0)
			}))
		}
		_, err := (&stdsql.Guard{}).Mint(t.Context(), account, "h")
		require.ErrorContains(t, err, "no DB")
		require.Equal(t, 100, balance(t, db))
		for _, name := range []string{"o'brien", `"; DROP`, `back\slash`, "größe", "{floor}", "{holder}", "%s?$1"} {
			tok, err := mintedToken(db.guard().Mint(t.Context(), name, name))
			require.NoError(t, err)
			require.NoError(t, db.guard().Admit(t.Context(), tok))
			tok.Number--
			require.ErrorIs(t, db.guard().Admit(t.Context(), tok), guard.ErrStale)
		}
	})
}

// hazard G33
func TestMintsAtOnceGetNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		const minters, each = 16, 4
		start := make(chan struct{})
		var mu sync.Mutex
		var all sync.WaitGroup
		numbers := map[int64]string{}
		for i := range minters {
			all.Go(func() {
				<-start
				var last token.Token
				for n := range each {
					tok, err := mintedToken(db.guard().Mint(t.Context(), account, fmt.Sprint(i, ".", n)))
					if err != nil || tok.Number <= last.Number {
						t.Errorf("%s after %s: %v", tok, last, err)
						return
					}
					last = tok
					mu.Lock()
					if holder, twice := numbers[tok.Number]; twice {
						t.Errorf("%s of %s and of %s", tok, tok.Holder, holder)
					}
					numbers[tok.Number] = tok.Holder
					mu.Unlock()
				}
			})
		}
		close(start)
		all.Wait()
		require.Len(t, numbers, minters*each)
		mark := db.mark(t, account)
		require.Equal(t, numbers[mark.Number], mark.Holder)
		for number := range numbers {
			require.LessOrEqual(t, number, mark.Number)
		}
	})
	t.Run("the twin that reads, counts and writes", func(t *testing.T) {
		t.Parallel()
		onEach(t, func(t *testing.T, db *database) {
			db.claim(t, tok(ahead, "a"))
			naive := func() token.Token { return tok(db.mark(t, account).Number+1, "h") }
			first, second := naive(), naive() // each reads before the other writes
			for _, minted := range []token.Token{first, second} {
				run(t, db, fmt.Sprintf("UPDATE %s SET number = %d, holder = 'h'", db.marks, minted.Number))
			}
			require.Equal(t, first, second, "the twin must give one number twice")
			require.NoError(t, db.guard().Admit(t.Context(), first))
			require.NoError(t, db.guard().Admit(t.Context(), second))
		})
	})
}

// A read after a mint includes every older write, at every isolation level of the guard.
func TestMintWaitsForOlderWriters(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		older := holding(t, 33, "a")
		g := db.guard()
		g.Tx = &sql.TxOptions{Isolation: sql.LevelSerializable}
		minted := make(chan error, 1)
		var own token.Token
		require.NoError(t, db.update(older, func(tx *sql.Tx) error {
			go func() {
				var err error
				own, err = mintedToken(g.Mint(t.Context(), account, "b"))
				minted <- err
			}()
			db.awaitWaiting(t)
			return add(older, 50)(tx)
		}))
		require.NoError(t, <-minted)
		require.Equal(t, 150, balance(t, db))
		require.Equal(t, guard.Mark{Number: own.Number, Holder: "b"}, db.mark(t, account))
		require.ErrorIs(t, db.update(older, add(older, 1)), guard.ErrStale)
	})
}

// hazard G8
func TestPostgresMintEvicts(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	older := holding(t, 33, "a")
	unbounded := db.guard()
	unbounded.IdleTimeout = -1
	impatient := db.guard()
	impatient.IdleTimeout = short
	err := unbounded.Update(older, account, func(tx *sql.Tx) error {
		require.NoError(t, write(older, tx, 0))
		require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error {
			_, err := impatient.MintTx(t.Context(), tx, account, "b")
			return err
		}), guard.ErrRetryable, "in the caller's transaction no session is ended")
		ctx, leave := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() { _, err := unbounded.Mint(ctx, account, "b"); waiting <- err }()
		db.awaitWaiting(t)
		leave()
		require.ErrorIs(t, <-waiting, context.Canceled, "the twin without a bound must wait")
		db.bounded(t, func(g *stdsql.Guard) error { _, err := g.Mint(t.Context(), account, "b"); return err })
		time.Sleep(checkAfter)
		return nil
	})
	require.ErrorIs(t, err, guard.ErrEvicted)
	require.Equal(t, 100, balance(t, db))
}

func TestMintWhoseAnswerIsLostIsMintedAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		broken := errors.New("connection reset by peer")
		for name, commit := range map[string]func(tx openTx) error{
			"after it was applied":  func(tx openTx) error { return errors.Join(tx.Commit(), broken) },
			"before it was applied": func(tx openTx) error { return errors.Join(tx.Rollback(), broken) },
		} {
			before := db.mark(t, account)
			pool := db.hooked(t, &hooks{commit: commit})
			pool.SetMaxOpenConns(1)
			tok, err := mintedToken(db.over(pool).Mint(t.Context(), account, "a"))
			require.ErrorIs(t, err, guard.ErrUnknown, name)
			require.ErrorIs(t, err, broken, name)
			require.Zero(t, tok.Number, name)
			left := db.mark(t, account)
			require.Equal(t, name == "before it was applied", left == before)
			require.Greater(t, db.mint(t, "a").Number, left.Number, name)
			require.NoError(t, pool.PingContext(t.Context()), "the pool must be fit for use")
		}
	})
}

// In report-only mode a mint still needs a number, but ends no session.
func TestMintInReportOnlyMode(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		g, reported := db.reportOnly(t)
		g.IdleTimeout = time.Millisecond
		db.claim(t, tok(33, "a"))
		if db.dialect == stdsql.MySQL {
			g.DB = connect(t, "mysql", db.setting(t, "innodb_lock_wait_timeout", "1"))
		}
		older, minted := holding(t, 33, "a"), make(chan error, 1)
		require.NoError(t, db.update(older, func(tx *sql.Tx) error {
			if db.dialect == stdsql.Postgres {
				impatient := *g
				impatient.DB = connect(t, "pgx", db.setting(t, "lock_timeout", "1"))
				_, err := impatient.Mint(t.Context(), account, "b")
				require.ErrorIs(t, err, guard.ErrRetryable, "its timeout ends no session")
			}
			go func() {
				_, err := g.Mint(t.Context(), account, "b")
				minted <- err
			}()
			if db.dialect == stdsql.MySQL {
				require.ErrorIs(t, <-minted, guard.ErrRetryable, "the server bounds the wait")
				return add(older, 10)(tx)
			}
			db.awaitWaiting(t)
			return add(older, 10)(tx)
		}))
		if db.dialect == stdsql.Postgres {
			require.NoError(t, <-minted)
		}
		tok, err := mintedToken(g.Mint(t.Context(), account, "c"))
		require.NoError(t, err)
		require.Empty(t, *reported)
		require.Equal(t, guard.Mark{Number: tok.Number, Holder: "c"}, db.mark(t, account))
		require.NoError(t, g.Update(older, account, add(older, 10)))
		require.Len(t, *reported, 1, "the older token is compared with it")
	})
}

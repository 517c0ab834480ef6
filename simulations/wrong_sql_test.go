package simulations_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// till is the shop's program over database/sql.
type till struct {
	t      testing.TB
	db     *sql.DB
	fence  *stdsql.Guard
	issuer *redistoken.Issuer
	locks  *lock.Locker
	config *pgx.ConnConfig // on PostgreSQL
}

const untraced = "PostgreSQL without a tracer"

// tills are the databases that a till can have.
var tills = map[string]func(t *testing.T) *till{
	"PostgreSQL": func(t *testing.T) *till { return postgresTill(t, sqlpoint.Wrap) },
	untraced: func(t *testing.T) *till {
		return postgresTill(t, func(base driver.Connector) driver.Connector { return base })
	},
	"MariaDB": func(t *testing.T) *till {
		config, err := mysql.ParseDSN(testenv.MariaDB(t))
		require.NoError(t, err)
		connector, err := mysql.NewConnector(config)
		require.NoError(t, err)
		db := opened(t, sqlpoint.Wrap(connector))
		require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), db))
		// A paused holder must not be evicted, even on a busy machine.
		return openTill(t, &stdsql.Guard{DB: db, Dialect: stdsql.MySQL, IdleTimeout: time.Minute})
	},
	"SQLite": func(t *testing.T) *till {
		db, err := sqlpoint.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "till.db"))+
			"?_pragma=busy_timeout(200)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), db))
		return openTill(t, &stdsql.Guard{DB: db, Dialect: stdsql.SQLite})
	},
}

func postgresTill(t *testing.T, wrap func(driver.Connector) driver.Connector) *till {
	t.Helper()
	given, schema := testenv.Postgres(t)
	config := *given.Config().ConnConfig
	config.RuntimeParams["search_path"] = schema
	s := openTill(t, &stdsql.Guard{DB: opened(t, wrap(stdlib.GetConnector(config))), Schema: schema})
	s.config = &config
	return s
}

func openTill(t *testing.T, fence *stdsql.Guard) *till {
	t.Helper()
	for _, made := range []string{
		"CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL, mark bigint NOT NULL DEFAULT 0)",
		"CREATE TABLE outbox (text varchar(100) NOT NULL)",
		fmt.Sprintf("INSERT INTO accounts VALUES (42, %d, 0)", opening),
	} {
		_, err := fence.DB.ExecContext(t.Context(), made)
		require.NoError(t, err)
	}
	client, prefix := testenv.Redis(t)
	s := &till{t: t, db: fence.DB, fence: fence, issuer: &redistoken.Issuer{Client: client, Prefix: prefix}}
	s.locks = &lock.Locker{Issuer: s.issuer, Claim: fence.Admit}
	return s
}

func (s *till) subject(unit func(context.Context) error) simulations.Subject {
	return simulations.Subject{
		Issuer: s.issuer, Resource: "account/42", Do: unit, Holds: true,
		Count: func(ctx context.Context) (int, error) {
			balance, err := s.balance(ctx, s.db)
			return opening - balance, err
		},
	}
}

// drawer is a pool or a transaction.
type drawer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *till) balance(ctx context.Context, db drawer) (n int, err error) {
	err = db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&n)
	return n, err
}

func (s *till) set(ctx context.Context, db drawer, balance int) error {
	return do(ctx, db, fmt.Sprintf("UPDATE accounts SET balance = %d WHERE id = 42", balance))
}

func do(ctx context.Context, db drawer, query string) error {
	_, err := db.ExecContext(ctx, query)
	return err
}

// withdraw reads with one and writes with the other.
func (s *till) withdraw(ctx context.Context, from, to drawer) error {
	return s.spend(ctx, from, func(left int) error { return s.set(ctx, to, left) })
}

func (s *till) hold(ctx context.Context, fn func(context.Context) error) error {
	return s.locks.Hold(ctx, "account/42", fn)
}

func (s *till) holdUnclaimed(ctx context.Context, fn func(context.Context) error) error {
	return holdUnclaimed(ctx, s.issuer, fn)
}

func (s *till) update(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return s.fence.Update(ctx, "account/42", fn)
}

// readFirst returns work under a claimed token.
func (s *till) readFirst(ctx context.Context) error {
	return s.spend(ctx, s.db, func(left int) error {
		return s.update(ctx, func(tx *sql.Tx) error { return s.set(ctx, tx, left) })
	})
}

// join runs fn in the program's own transaction, which the guard has joined.
func (s *till) join(ctx context.Context, before, fn func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := before(tx); err != nil {
		return err
	}
	if err := s.fence.Join(ctx, tx, "account/42"); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// spend passes what will be left of the balance to write.
func (s *till) spend(ctx context.Context, from drawer, write func(left int) error) error {
	balance, err := s.balance(ctx, from)
	if err != nil {
		return err
	}
	return write(balance - 1)
}

// stale reads, and returns the write of what was computed.
func (s *till) stale(ctx context.Context) (func(context.Context) error, error) {
	balance, err := s.balance(ctx, s.db)
	return func(ctx context.Context) error {
		return s.update(ctx, func(tx *sql.Tx) error { return s.set(ctx, tx, balance-1) })
	}, err
}

// work is one unit, under the token in ctx.
func (s *till) work(ctx context.Context) error {
	return s.update(ctx, func(tx *sql.Tx) error { return s.withdraw(ctx, tx, tx) })
}

// guarded is the program without a mistake.
func (s *till) guarded(ctx context.Context) error { return s.hold(ctx, s.work) }

// wrongTills are programs with one mistake each, and the likely cause that the verdict
// must name. On the databases in unseen they pass, and the coverage reports what was not
// covered. Some mistakes cannot be observed without a tracer. MariaDB does not evict a
// paused holder within milliseconds, so its successor writes after it. SQLite has one
// writer at a time, also after a savepoint is rolled back, and its guard loses no reply.
var wrongTills = []struct {
	name, says string
	unseen     map[string]string
	make       func(s *till) func(context.Context) error
}{
	{"no guard at all", "no guard at all", nil, held(func(s *till, ctx context.Context) error { // hazard G2
		return s.withdraw(ctx, s.db, s.db)
	})},
	{"write over the pool", "write over the pool", map[string]string{"MariaDB": "a statement went around the guard's transaction while that was open (UPDATE accounts"}, held(func(s *till, ctx context.Context) error {
		return s.update(ctx, func(tx *sql.Tx) error { return s.withdraw(ctx, tx, s.db) })
	})},
	{"wrong name", "wrong name", nil, held(func(s *till, ctx context.Context) error {
		return s.fence.Update(ctx, "accounts/42", func(tx *sql.Tx) error { return s.withdraw(ctx, tx, tx) })
	})},
	{"outer context", "outer context", nil, withOuterContext[*till]},
	{"retry after unknown", "retry after unknown", map[string]string{"SQLite": "no answer to a write was lost"}, again[*till](guard.ErrUnknown)},
	{"retry after unknown, refused", "retry after unknown", map[string]string{"SQLite": "no answer to a write was lost"}, held(func(s *till, ctx context.Context) error {
		for {
			err := s.work(ctx)
			if !errors.Is(err, guard.ErrUnknown) {
				return err
			}
			newer, err := token.FromContext(ctx, "account/42") // of another holder, as if the lease had been lost
			if err != nil {
				return err
			}
			newer.Number, newer.Holder = newer.Number+1, "another"
			if err := s.fence.Admit(s.t.Context(), newer); err != nil {
				return err
			}
		}
	})},
	{"an unknown taken for a success", "unknown taken for an answer", map[string]string{"SQLite": "no answer to a write was lost"}, ignoring[*till](guard.ErrUnknown)},
	{"retry after a COMMIT that failed", "retry after unknown", map[string]string{untraced: "no answer to a write was lost"}, byItself(func(s *till, ctx context.Context) error {
		return s.hold(ctx, func(ctx context.Context) (err error) {
			for range 2 {
				err = s.join(ctx, func(*sql.Tx) error { return nil }, func(tx *sql.Tx) error { return s.withdraw(ctx, tx, tx) })
				if err == nil || guard.IsRefusal(err) || errors.Is(err, guard.ErrRetryable) {
					return err
				}
			}
			return err
		})
	})},
	{"a refusal swallowed", "a refusal swallowed", nil, ignoring[*till](guard.ErrStale)},
	{"read before Update without Claim", "read before Update without Claim", nil, unclaimed((*till).readFirst)}, // hazard G3
	{"savepoint rolled back after Join", "savepoint rolled back after Join", map[string]string{untraced: "no tracer", "SQLite": "no paused holder was evicted from a transaction"}, held(func(s *till, ctx context.Context) error { // hazard G18
		return s.join(ctx, func(tx *sql.Tx) error { return do(ctx, tx, "SAVEPOINT optional") }, func(tx *sql.Tx) error {
			if err := do(ctx, tx, "ROLLBACK TO SAVEPOINT optional"); err != nil {
				return err
			}
			return s.withdraw(ctx, tx, tx)
		})
	})},
	{"only the first of two statements guarded", "only the first of two statements guarded", map[string]string{untraced: "no tracer"}, held(func(s *till, ctx context.Context) error {
		err := s.update(ctx, func(tx *sql.Tx) error { return do(ctx, tx, "UPDATE accounts SET mark = mark + 1 WHERE id = 42") })
		if err != nil {
			return err
		}
		return s.withdraw(ctx, s.db, s.db)
	})},
	{"outbox written outside the transaction", "outbox written outside the transaction", map[string]string{untraced: "no tracer"}, held(func(s *till, ctx context.Context) error {
		if err := s.work(ctx); err != nil {
			return err
		}
		return do(ctx, s.db, "INSERT INTO outbox VALUES ('withdrawn')")
	})},
	{"token cached in a struct", "token cached in a struct", nil, withFirstToken[*till]}, // hazard L2
	{"a stale value written again", "a stale value written again", nil, staleAgain[*till]},
}

func TestWrongProgramsOverDatabaseSQLAreNamed(t *testing.T)       { nameTills(t) }
func TestStressWrongProgramsOverDatabaseSQLAreNamed(t *testing.T) { nameTills(t) }

func nameTills(t *testing.T) {
	t.Parallel()
	for _, c := range wrongTills {
		for database, open := range testenv.Some(t, tills, "MariaDB") {
			t.Run(c.name+"/"+database, func(t *testing.T) {
				t.Parallel()
				s := open(t)
				began := time.Now()
				try, lacks := untilFound, ""
				if missing, passes := c.unseen[database]; passes {
					try, lacks = some, missing
				}
				var covered string
				err := untilPlanned(t, func() (err error) {
					covered, err = simulations.Cover(t.Context(), try(s.subject(c.make(s))))
					return err
				})
				t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
				if lacks != "" {
					require.NoError(t, err, covered)
					require.Contains(t, covered, "not covered: "+lacks)
					return
				}
				requireLikely(t, err, c.says)
			})
		}
	}
}

// rightTills are correct programs of different designs.
var rightTills = map[string]func(s *till) func(context.Context) error{
	"Update":                        func(s *till) func(context.Context) error { return s.guarded },
	"a read before Update, claimed": held((*till).readFirst),
	"Join, and an outbox in the same transaction": held(func(s *till, ctx context.Context) error {
		return s.join(ctx, func(*sql.Tx) error { return nil }, func(tx *sql.Tx) error {
			return errors.Join(do(ctx, tx, "INSERT INTO outbox VALUES ('withdrawn')"), s.withdraw(ctx, tx, tx))
		})
	}),
	"a savepoint that is rolled back after Join": held(func(s *till, ctx context.Context) error {
		return s.update(ctx, func(tx *sql.Tx) error {
			for _, query := range []string{"SAVEPOINT optional", "INSERT INTO outbox VALUES ('optional')", "ROLLBACK TO SAVEPOINT optional"} {
				if err := do(ctx, tx, query); err != nil {
					return err
				}
			}
			return s.withdraw(ctx, tx, tx)
		})
	}),
}

// No correct program gets a verdict, and the coverage reports whether paused holders are
// evicted.
func runRightOverDatabaseSQL(t *testing.T, try scope) {
	for name, program := range testenv.Some(t, rightTills, "a read before Update, claimed") {
		for database, open := range testenv.Some(t, tills, "PostgreSQL", "MariaDB", "SQLite") {
			t.Run(name+"/"+database, func(t *testing.T) {
				t.Parallel()
				s := open(t)
				subject := s.subject(program(s))
				covered, err := simulations.Cover(t.Context(), try(subject))
				t.Log(covered)
				require.NoError(t, err)
				if s.fence.Dialect == stdsql.Postgres {
					requireEvictions(t, covered, subject)
				} else {
					require.Contains(t, covered, "not covered: no paused holder was evicted from a transaction: no guard was called whose server ends idle transactions within milliseconds")
				}
			})
		}
	}
}

// requireEvictions requires that paused holders were evicted. In few interleavings a busy
// machine may have woken them before the server did; it then performs more of them.
func requireEvictions(t *testing.T, covered string, s simulations.Subject) {
	t.Helper()
	for more := 2; !strings.Contains(covered, "units were evicted by the server while they slept"); more *= 2 {
		require.Less(t, more, 100, covered)
		var err error
		covered, err = simulations.Cover(t.Context(), simulations.Within(12*more, 4*more, s))
		require.NoError(t, err)
	}
}

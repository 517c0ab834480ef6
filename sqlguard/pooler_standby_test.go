package sqlguard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
)

// splitter is a primary with a standby, behind a pooler that treats an admission as a
// read. The env connects to the primary directly.
type splitter struct {
	*env
	primary, standby *testenv.PostgresServer
	replay           *pgx.Conn // connected to the standby
	url              string
}

func newSplitter(t *testing.T) *splitter {
	t.Helper()
	s := &splitter{primary: testenv.OwnPostgres(t)}
	s.env = envOn(t, s.primary.URL())
	s.exec("SELECT fencepost.add_mark_columns('accounts'::text::regclass)")
	s.standby = s.primary.Standby()
	var err error
	s.replay, err = pgx.Connect(t.Context(), s.standby.URL())
	require.NoError(t, err)
	t.Cleanup(func() { s.replay.Close(context.WithoutCancel(t.Context())) })
	s.url = testenv.OwnPgpool(t, s.primary, s.standby, "read_only_function_list = '.*admit.*,.*observe.*'")
	return s
}

// lags makes the standby replay everything so far, and nothing after that.
func (s *splitter) lags() {
	s.t.Helper()
	s.onStandby("SELECT pg_wal_replay_resume()")
	s.primary.CaughtUp()
	s.onStandby("SELECT pg_wal_replay_pause()")
	s.await("the replay is paused", func() bool { return s.onStandby("SELECT pg_get_wal_replay_pause_state()") == "paused" })
}

func (s *splitter) onStandby(sql string) (answer string) {
	s.t.Helper()
	results, err := s.replay.PgConn().Exec(s.t.Context(), sql).ReadAll()
	require.NoError(s.t, err)
	return string(results[0].Rows[0][0])
}

// asking makes admit check whether it runs on a standby, as it does by default, or skip
// the check.
func (s *splitter) asking(asks bool) {
	s.t.Helper()
	const check, none = "IF pg_catalog.pg_is_in_recovery() THEN", "IF false THEN"
	from, to := none, check
	if !asks {
		from, to = check, none
	}
	for _, function := range []string{"admit", "report_only"} {
		var text string
		require.NoError(s.t, s.pool.QueryRow(s.t.Context(),
			"SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE pronamespace = 'fencepost'::regnamespace AND proname = $1", function).Scan(&text))
		require.Equal(s.t, 1, strings.Count(text, from), function)
		_, err := s.pool.Exec(s.t.Context(), strings.Replace(text, from, to, 1))
		require.NoError(s.t, err)
	}
}

// asRead sends an admission without FOR UPDATE, as earlier guards did, in one batch with
// the write. The pooler treats it as a read.
func asRead(ctx context.Context, pool *pgxpool.Pool) error {
	b := &pgx.Batch{}
	b.Queue("SELECT fencepost.admit($1, $2, $3, $4::integer)", resource, 33, "h33", -1)
	b.Queue("UPDATE fencepost.accounts SET writer = '33' WHERE id = 42")
	return pool.SendBatch(ctx, b).Close()
}

// stale lets token 33 write through the pooler in every mode, while the mark is 34's on
// the primary and still 33's on the standby. It returns in how many modes the write was
// applied, and passes the errors to judge.
func (s *splitter) stale(pools []*pgxpool.Pool, try func(ctx context.Context, pool *pgxpool.Pool) error, judge func(mode pgx.QueryExecMode, err error)) (written int) {
	s.t.Helper()
	s.exec("DELETE FROM marks")
	s.admitted(33)
	s.lags()
	s.admitted(34)
	for i, mode := range modes {
		s.exec("INSERT INTO accounts (id, writer) VALUES (42, '34') ON CONFLICT (id) DO UPDATE SET writer = '34'")
		err := try(s.ctx(33), pools[i])
		if s.writer() == "33" {
			written++
		}
		judge(mode, err)
	}
	return written
}

// clients returns pools of one connection to the pooler, one for each mode.
func (s *splitter) clients(t *testing.T) (pools []*pgxpool.Pool) {
	t.Helper()
	for _, mode := range modes {
		pools = append(pools, client(t, s.url, mode, 1))
	}
	return pools
}

// hazard G27
func TestAnAdmissionThatIsSentToAStandby(t *testing.T) {
	t.Parallel()
	s := newSplitter(t)
	t.Run("is refused by a standby itself", s.refusedByTheStandby)
	// The pooler sends BEGIN to both servers, and a query of several statements to the primary only.
	t.Run("a COMMIT with its check, and a ROLLBACK, end the transaction on the standby too", func(t *testing.T) {
		s.admitted(34)
		failed := errors.New("mine")
		for _, pool := range s.clients(t) {
			g := s.by(pool)
			for _, sql := range []string{"SELECT 1", "SELECT 1/0"} {
				for _, want := range []error{nil, failed} {
					_ = g.Update(s.ctx(34), resource, func(tx pgx.Tx) error { _, _ = tx.Exec(t.Context(), sql); return want })
					require.Equal(t, "0", s.onStandby("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"), sql)
				}
			}
			require.NoError(t, g.Update(s.ctx(34), resource, s.write(s.ctx(34), "34")))
		}
	})
}

func TestStressAnAdmissionThatIsSentToAStandby(t *testing.T) {
	t.Parallel()
	s := newSplitter(t)
	t.Run("the twin, a function that does not check for a standby, is admitted", func(t *testing.T) {
		s.asking(false)
		admitted := 0
		written := s.stale(s.clients(t), asRead, func(_ pgx.QueryExecMode, err error) {
			if err == nil {
				admitted++
			}
		})
		require.Positive(t, admitted, "the twin must be admitted")
		require.Positive(t, written, "the twin must be corrupted")
		s.asking(true)
	})
	t.Run("that raises there keeps no write of the same batch from the primary", func(t *testing.T) {
		raised := 0
		written := s.stale(s.clients(t), asRead, func(_ pgx.QueryExecMode, err error) {
			require.Error(t, err)
			if outcomeCode(err) == "25006" {
				raised++
			}
		})
		require.Positive(t, raised)
		require.Positive(t, written, "why no guard sends an admission as a read, and why this error leaves the outcome open")
	})
	t.Run("is none of a guard's, which the pooler sends to the primary", func(t *testing.T) {
		pools := s.clients(t)
		for name := range doors(s.env, s.guard) {
			written := s.stale(pools, func(ctx context.Context, pool *pgxpool.Pool) error {
				return doors(s.env, s.by(pool))[name](ctx, "33")
			}, func(mode pgx.QueryExecMode, err error) {
				require.ErrorIs(t, err, guard.ErrStale, "%s in mode %s", name, mode)
			})
			require.Zero(t, written, name)
		}
	})
	t.Run("that lags behind the migration leaves the outcome open too", s.lagging)
	t.Run("whose replay cancels the admission leaves the outcome open too", s.cancelledByRecovery)
	t.Run("none is accepted of eight writers under sixty claims", func(t *testing.T) { s.torture(t, 8, 60) })
}

// torture lets every writer try to write under its own last token after each claim.
func (s *splitter) torture(t *testing.T, writers, claims int) {
	s.exec("DELETE FROM marks")
	s.exec("CREATE TABLE ledger (number bigint, mark bigint)")
	insert := "INSERT INTO fencepost.ledger SELECT $1, m.number FROM fencepost.marks m WHERE m.resource = 'account/42'"
	guards, numbers := make([]*sqlguard.Guard, writers), make([]int64, writers)
	for i := range guards {
		pool := client(t, s.url, modes[i%len(modes)], 1)
		guards[i] = s.by(pool)
	}
	applied, refused := 0, 0
	for claim := range claims {
		n, i := int64(claim+1), claim%writers
		require.NoError(t, guards[i].Admit(s.bounded(), tokenOf(n)))
		numbers[i] = n
		if claim%3 == 0 {
			s.lags() // so that each writer's mark was on the standby at some time
		}
		errs := make([]error, writers)
		var all sync.WaitGroup
		for i, g := range guards {
			if numbers[i] > 0 {
				ctx := s.ctx(numbers[i])
				all.Go(func() { _, errs[i] = g.On(resource).Exec(ctx, insert, numbers[i]) })
			}
		}
		all.Wait()
		for i, err := range errs {
			switch {
			case numbers[i] == n:
				require.NoError(t, err)
				applied++
			case numbers[i] > 0:
				require.ErrorIs(t, err, guard.ErrStale)
				refused++
			}
		}
	}
	require.Zero(t, query[int](s.env, "SELECT count(*) FROM ledger WHERE number <> mark"), "stale writes accepted")
	require.Equal(t, applied, query[int](s.env, "SELECT count(*) FROM ledger"))
	t.Logf("%d applied, %d refused", applied, refused)
}

// openAt has the doors that send a write and a COMMIT behind an admission. A standby that
// refuses the admission leaves their outcome open: a splitter may have sent the rest to
// the primary.
var openAt = map[string]bool{
	"On.Exec": true, "On.Query": true, "On.QueryRow": true, "On.SendBatch": true, "On.CopyFrom": true, // begins with an Exec
	"Table.Upsert": true, "Table.Update, protected": true, "Table.Delete, then Insert": true, "Table.Insert": true,
}

// everyDoor are the doors of the guard and of the table.
func (s *splitter) everyDoor(g *sqlguard.Guard) map[string]func(ctx context.Context, writer string) error {
	all := everyDoor(s.env, g)
	all["Table.Insert"] = func(ctx context.Context, writer string) error {
		return s.table(g).Insert(ctx, 42, rowguard.Set{"writer": writer})
	}
	return all
}

// requireOutcome requires the outcome of a door whose admission a standby has refused.
func requireOutcome(t *testing.T, name string, err error, mode pgx.QueryExecMode) {
	t.Helper()
	if openAt[name] {
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%s in mode %s: a write and a COMMIT were behind the admission: %v", name, mode, err)
		return
	}
	require.Empty(t, outcomes(err), "%s in mode %s: nothing was behind the admission: %v", name, mode, err)
}

func (s *splitter) refusedByTheStandby(t *testing.T) {
	s.admitted(33)
	s.primary.CaughtUp()
	for _, mode := range modes {
		pool := client(t, s.standby.URL(), mode, 1)
		g := s.by(pool)
		for name, door := range s.everyDoor(g) {
			for _, number := range []int64{32, 33, 34} {
				err := door(s.ctx(number), "x")
				require.Contains(t, []string{"25006", "0A000"}, outcomeCode(err), "%s in mode %s: %v", name, mode, err)
				requireOutcome(t, name, err, mode)
				switch name {
				case "Table.Update", "Table.Fence": // one statement without an admission
				default:
					require.ErrorContains(t, err, "the admission was sent to a standby", name)
				}
			}
		}
		_, err := g.On(resource).CopyFrom(s.ctx(33), pgx.Identifier{"fencepost", "accounts"}, []string{"id"}, pgx.CopyFromRows([][]any{{int64(44)}}))
		require.ErrorContains(t, err, "the admission was sent to a standby")
		require.Empty(t, outcomes(err), "COPY follows the reply to the admission")
		_, err = g.Mint(s.bounded(), resource, "h")
		require.ErrorContains(t, err, "the admission was sent to a standby")
		require.Empty(t, outcomes(err), "a number that was not returned is not used")
		g, seen := s.reporting(pool)
		_, err = g.On(resource).Exec(s.ctx(32), "SELECT 1 FROM fencepost.accounts")
		require.NoError(t, err, "report-only mode goes on")
		require.Len(t, *seen, 1)
		require.ErrorContains(t, (*seen)[0], "was not compared with the mark: the admission was sent to a standby")
		pool.Close()
	}
}

// lagging lets writers reach a standby that has not replayed the migration yet. A server
// without the migration returns the same error (3F000, 42883).
func (s *splitter) lagging(t *testing.T) {
	s.lags()
	s.exec("CREATE FUNCTION fencepost.admit_later() RETURNS void LANGUAGE sql AS 'SELECT'")
	s.exec("UPDATE accounts SET writer = ''")
	b := batch("SELECT fencepost.admit_later()", "UPDATE fencepost.accounts SET writer = 'behind it' WHERE id = 42")
	err := client(t, s.url, pgx.QueryExecModeExec, 1).SendBatch(s.ctx(33), b).Close()
	require.Equal(t, "42883", outcomeCode(err))
	require.Equal(t, "behind it", s.writer(), "why this error leaves the outcome open")

	for _, mode := range modes {
		pool := client(t, s.standby.URL(), mode, 1)
		for name, door := range doors(s.env, s.with(func(g *sqlguard.Guard) { g.DB, g.Schema = pool, "later" })) {
			err := door(s.ctx(33), "x")
			require.Contains(t, []string{"3F000", "0A000"}, outcomeCode(err), "%s in mode %s: %v", name, mode, err)
			if mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
				requireOutcome(t, name, err, mode)
				continue
			}
			require.Empty(t, outcomes(err), "%s in mode %s: the admission cannot be prepared, so nothing is sent", name, mode)
		}
		pool.Close()
	}
}

// cancelledByRecovery lets the standby cancel an admission that its replay has to wait
// for. The admission must be paused for that, so it does not check for a standby.
func (s *splitter) cancelledByRecovery(t *testing.T) {
	s.onStandby("SELECT pg_wal_replay_resume()")
	s.admitted(35)
	s.asking(false)
	defer s.asking(true)
	_, err := s.replay.Exec(t.Context(), "ALTER SYSTEM SET max_standby_streaming_delay = 0")
	require.NoError(t, err)
	s.onStandby("SELECT pg_reload_conf()")
	defer func() { // otherwise the replay also cancels what a later test sends to the standby
		_, err := s.replay.Exec(t.Context(), "ALTER SYSTEM RESET max_standby_streaming_delay")
		require.NoError(t, err)
		s.onStandby("SELECT pg_reload_conf()")
	}()
	s.primary.CaughtUp()
	const lock = "(fencepost.lock_key('account/42'))::text"
	for _, mode := range modes {
		pool := client(t, s.standby.URL(), mode, 1)
		all := doors(s.env, s.by(pool))
		for name, want := range map[string]error{"On.Exec": guard.ErrUnknown, "On.SendBatch": guard.ErrUnknown, "Update": guard.ErrRetryable} {
			s.onStandby("SELECT pg_advisory_lock" + lock)
			late := async(func() error { return all[name](s.ctx(35), "x") })
			s.await("the admission waits", func() bool {
				return s.onStandby("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "1"
			})
			s.exec("DO $$ BEGIN LOCK TABLE marks IN ACCESS EXCLUSIVE MODE; END $$")
			err := await(t, late)
			s.onStandby("SELECT pg_advisory_unlock" + lock)
			require.Equal(t, "40001", outcomeCode(err), "%s in mode %s: %v", name, mode, err)
			require.Equal(t, []error{want}, outcomes(err), "%s in mode %s: %v", name, mode, err)
		}
		pool.Close()
	}
}

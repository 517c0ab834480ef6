package stdsql_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// replicated is a primary with a standby. The database is the primary's.
type replicated struct {
	*database
	primary, standby *testenv.PostgresServer
	replay           *sql.DB // connected to the standby
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	primary := testenv.OwnPostgres(t)
	testenv.Migrate(t, primary.URL())
	db := &database{driver: "pgx", dsn: primary.URL(), dialect: stdsql.Postgres, schema: "fencepost", marks: "fencepost.marks"}
	db.made(t, "BIGINT GENERATED ALWAYS AS IDENTITY")
	standby := primary.Standby()
	return &replicated{db, primary, standby, connect(t, "pgx", standby.URL())}
}

// behind makes 34's the mark of the primary, while the standby still has 33's.
func (r *replicated) behind(t *testing.T) {
	t.Helper()
	run(t, r.replay, "SELECT pg_wal_replay_resume()")
	r.forget(t)
	r.claim(t, tok(33, "a"))
	r.primary.CaughtUp()
	run(t, r.replay, "SELECT pg_wal_replay_pause()")
	paused := &database{DB: r.replay}
	paused.eventually(t, "SELECT count(*) FROM pg_get_wal_replay_pause_state() AS state WHERE state = 'paused'", func(paused int) bool { return paused == 1 })
	r.claim(t, tok(34, "b"))
}

// written is the number of writes that were applied.
func (r *replicated) written(t *testing.T) int {
	t.Helper()
	return one[int](t, r, "SELECT count(*) FROM ledger")
}

// withoutCheck makes the functions skip the check for a standby.
func (r *replicated) withoutCheck(t *testing.T) {
	t.Helper()
	const check = "IF pg_catalog.pg_is_in_recovery() THEN"
	text := one[string](t, r, "SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE pronamespace = 'fencepost'::regnamespace AND proname = 'admit'")
	require.Equal(t, 1, strings.Count(text, check))
	run(t, r, strings.Replace(text, check, "IF false THEN", 1))
}

// asRead sends admissions without FOR UPDATE, which a pooler then takes for reads.
func asRead(query string) string { return strings.TrimSuffix(strings.TrimSpace(query), "FOR UPDATE") }

// hazard G27
func TestPostgresAnAdmissionOnAStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	t.Run("fails on the standby", r.failsOnTheStandby)
}

func TestStressPostgresAnAdmissionBehindAPoolerWithAStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	// With this list pgpool takes every SELECT of a function for a read.
	pooler := testenv.OwnPgpool(t, r.primary, r.standby, "read_only_function_list = '.*'")
	t.Run("is sent to the primary by pgpool", func(t *testing.T) { r.sentToThePrimary(t, pooler) })
	t.Run("that pgpool takes for a read fails", func(t *testing.T) { r.readsFail(t, pooler) })
	t.Run("the twin, a function that does not check for a standby, is corrupted", func(t *testing.T) { r.uncheckedIsCorrupted(t, pooler) })
}

func (r *replicated) failsOnTheStandby(t *testing.T) {
	r.claim(t, tok(33, "a"))
	r.primary.CaughtUp()
	for _, number := range []int64{32, 33, 34} {
		own := tok(number, "a")
		ctx := token.NewContext(t.Context(), own)
		for door, enter := range doors(t, r.over(r.replay), ctx, own, func(*sql.Tx) error { t.Error("fn ran on a standby"); return nil }) {
			err := enter()
			require.ErrorContains(t, err, "the admission was sent to a standby", "%s of %d", door, number)
			require.False(t, guard.IsRefusal(err), "a standby's mark judges nothing: %v", err)
		}
	}
}

// execModes are all exec modes of pgx.
var execModes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

func inMode(t *testing.T, pooler, mode string) (dsn string) {
	t.Helper()
	return (&database{dsn: pooler}).setting(t, "default_query_exec_mode", mode)
}

func (r *replicated) sentToThePrimary(t *testing.T, pooler string) {
	r.behind(t)
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	for _, mode := range execModes {
		pool := connect(t, "pgx", inMode(t, pooler, mode))
		for door, enter := range doors(t, r.over(pool), older, tok(33, "a"), record(t, tok(33, "a"))) {
			require.ErrorIs(t, enter(), guard.ErrStale, "%s in mode %s", door, mode)
		}
		for door, enter := range doors(t, r.over(pool), newer, tok(34, "b"), record(t, tok(34, "b"))) {
			require.NoError(t, enter(), "%s in mode %s", door, mode)
		}
	}
	require.Zero(t, one[int](t, r, "SELECT count(*) FROM ledger WHERE number = 33"), "stale writes accepted")
	require.Equal(t, 3*len(execModes), r.written(t))
}

func (r *replicated) readsFail(t *testing.T, pooler string) {
	r.behind(t)
	before, older := r.written(t), holding(t, 33, "a")
	for _, mode := range execModes {
		pool := connectHooked(t, "pgx", inMode(t, pooler, mode), &hooks{query: asRead})
		for door, enter := range doors(t, r.over(pool), older, tok(33, "a"), record(t, tok(33, "a"))) {
			err := enter()
			require.ErrorContains(t, err, "the admission was sent to a standby", "%s in mode %s", door, mode)
			require.False(t, guard.IsRefusal(err), "%s in mode %s", door, mode)
		}
	}
	require.Equal(t, before, r.written(t), "nothing was applied")
}

func (r *replicated) uncheckedIsCorrupted(t *testing.T, pooler string) {
	r.withoutCheck(t)
	r.behind(t)
	before, older := r.written(t), holding(t, 33, "a")
	pool := connectHooked(t, "pgx", pooler, &hooks{query: asRead})
	enter := doors(t, r.over(pool), older, tok(33, "a"), record(t, tok(33, "a")))
	require.NoError(t, enter["Join"](), "the twin must accept the stale write")
	require.Equal(t, before+1, r.written(t))
	for _, door := range []string{"Update", "UpdateAll"} {
		require.ErrorContains(t, enter[door](), "during recovery", "a standby has no transaction ids")
	}
	require.Equal(t, int64(34), r.mark(t, account).Number)
}

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

const poison = 999_999_999_999_999

// marked is a migrated schema for fencepost marks. Its statements say "fence."
// for the schema.
type marked struct {
	*testing.T
	pool   *pgxpool.Pool
	schema string
}

func newMarked(t *testing.T) *marked {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	return &marked{t, pool, schema}
}

func (m *marked) sql(text string) string {
	return strings.ReplaceAll(text, "fence.", pgx.Identifier{m.schema}.Sanitize()+".")
}

func (m *marked) admit(resource string, number int64, holder string) {
	m.Helper()
	_, err := m.pool.Exec(m.Context(), m.sql("SELECT fence.admit($1, $2, $3)"), resource, number, holder)
	require.NoError(m, err)
}

// ago is the number of a time before the server's clock.
func (m *marked) ago(d time.Duration) (n int64) {
	m.Helper()
	row := m.pool.QueryRow(m.Context(), m.sql("SELECT fence.number_at(clock_timestamp()) - $1::bigint"), int64(d/unit))
	require.NoError(m, row.Scan(&n))
	return n
}

func (m *marked) mark(resource string) (n int64, holder string) {
	m.Helper()
	row := m.pool.QueryRow(m.Context(), m.sql("SELECT number, holder FROM fence.marks WHERE resource = $1"), resource)
	require.NoError(m, row.Scan(&n, &holder))
	return n, holder
}

func (m *marked) floor() (n int64) {
	m.Helper()
	require.NoError(m, m.pool.QueryRow(m.Context(), m.sql("SELECT number FROM fence.floor")).Scan(&n))
	return n
}

// args are those of a command of fencepost marks for this schema.
func (m *marked) args(args ...string) []string {
	return append([]string{"marks", "--postgres", testenv.PostgresURL(m), "--schema", m.schema}, args...)
}

func (m *marked) run(args ...string) finished {
	m.Helper()
	return execute(m.T, m.args(args...)...)
}

func (m *marked) typing(input string, args ...string) finished {
	m.Helper()
	return typing(m.T, input, m.args(args...)...)
}

// objects reads lines of JSON.
func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		list = append(list, object)
	}
	return list
}

func TestMarksSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	for name, c := range map[string]struct {
		args string
		text string
	}{
		"the URL":      {"marks list", "marks: no URL: give --postgres=URL, or set FENCEPOST_POSTGRES_URL"},
		"a command":    {"marks", `expected one of "list", "show", "prune", "reset" (see fencepost marks --help)`},
		"a server":     {"marks list --postgres postgres://u:sekret@127.0.0.1:1/db", "postgres cannot be used"},
		"a right URL":  {"marks list --postgres postgres://u:sek%ret@127.0.0.1/db", "postgres: neither"},
		"migrations":   {"marks list --schema fence_nowhere --postgres " + url, `marks: schema "fence_nowhere" lacks what the migrations make: run fencepost migrate up: ERROR: `},
		"a resource":   {"marks show --postgres " + url, `expected "<resource>" (see fencepost marks show --help)`},
		"an age":       {"marks prune --postgres " + url, "missing flags: --older-than=DURATION (see fencepost marks prune --help)"},
		"one of these": {"marks --postgres " + url, `expected one of "list", "show", "prune", "reset"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, strings.Fields(c.args)...)
			require.Equal(t, 2, done.status)
			require.Empty(t, done.out)
			require.Equal(t, 1, strings.Count(done.err, "\n"), "one line: %s", done.err)
			require.Contains(t, done.err, c.text)
			require.LessOrEqual(t, strings.Count(done.err, "ERROR: "), 1, done.err)
			require.NotContains(t, done.err, "sek")
		})
	}
}

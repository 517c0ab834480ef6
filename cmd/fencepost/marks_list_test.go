package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
)

func TestMarksList(t *testing.T) { onEach(t, testMarksList) }

func testMarksList(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	hour := m.ago(time.Hour)
	m.admit("account/1", hour, "worker 1")
	m.admit("account/2", poison, "forged")
	m.admit("account/%", 5, "größe")
	m.admit("order/1", 6, "worker 2")

	t.Run("shows the highest number first", func(t *testing.T) {
		t.Parallel()
		done := m.run("list", "--highest")
		require.Zero(t, done.status, done.err)
		var words [][]string
		for line := range strings.Lines(done.out) {
			words = append(words, strings.Fields(line))
		}
		require.Len(t, words, 6)
		require.Equal(t, []string{"resource", "number", "holder", "time", "age"}, words[0])
		require.Equal(t, []string{"account/2", "999999999999999", "forged", "2286-11-20", "17:46:39.99", "UTC", "ahead"}, words[1][:7])
		require.Equal(t, []string{"account/1", fmt.Sprint(hour), "worker", "1"}, words[2][:4])
		require.Regexp(t, "^1h[0-9]+m", words[2][7]) // other tests may have gone first
		require.Equal(t, "order/1", words[3][0])
		require.Equal(t, []string{"account/%", "5", "größe", "1970-01-01", "00:00:00.00", "UTC"}, words[4][:6])
		require.Equal(t, []string{"4", "of", "4", "marks"}, words[5])
		column := strings.Index(done.out, "number")
		for line := range strings.Lines(done.out) {
			if strings.HasPrefix(line, "  ") {
				require.NotEqual(t, " ", string([]rune(line)[column]), "the columns stand under each other: %s", line)
			}
		}
	})
	t.Run("filters and stops", func(t *testing.T) {
		t.Parallel()
		done := m.run("list", "--prefix", "account/", "--limit", "1", "--oldest")
		require.Zero(t, done.status, done.err)
		require.Contains(t, done.out, "  account/%  5       größe")
		require.Contains(t, done.out, "1 of 3 marks that begin with account/\n")
		require.Contains(t, m.run("list", "--prefix", "account/%").out, "1 of 1 marks", "a prefix is no pattern")
		require.Contains(t, m.run("list", "--prefix", "nothing").out, "0 of 0 marks")
		for _, limit := range []string{"0", "-1", "ten"} {
			done := m.run("list", "--limit", limit)
			require.Equal(t, 2, done.status)
			require.Contains(t, done.err, limit+": must be a whole number above 0 (see fencepost marks list --help)")
		}
	})
	t.Run("shows them by resource otherwise", func(t *testing.T) {
		t.Parallel()
		var names []string
		for _, object := range objects(t, m.run("list", "--json").out) {
			names = append(names, object["resource"].(string))
		}
		require.Equal(t, []string{"account/%", "account/1", "account/2", "order/1"}, names)
		require.Contains(t, m.run("list", "--prefix", "account/", "--limit", "2").out, "2 of 3 marks that begin with account/\n")
		require.Equal(t, 2, m.run("list", "--oldest", "--highest").status)
	})
	// hazard W7
	t.Run("prints JSON with numbers as strings", func(t *testing.T) {
		t.Parallel()
		done := m.run("list", "--json", "--prefix", "account/2")
		require.Zero(t, done.status, done.err)
		list := objects(t, done.out)
		require.Len(t, list, 1)
		require.Less(t, list[0]["age_seconds"], 0.0)
		delete(list[0], "age_seconds")
		require.Equal(t, map[string]any{"resource": "account/2", "number": "999999999999999", "holder": "forged", "time": "2286-11-20T17:46:39.99999Z"}, list[0])
		require.Empty(t, m.run("list", "--json", "--prefix", "nothing").out)
	})
}

// The marks of a large table are neither in memory at once nor sorted.
func TestStressMarksListOfALargeTable(t *testing.T) { onEach(t, testMarksListOfALargeTable) }

func testMarksListOfALargeTable(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	if m.pool != nil {
		m.exec("INSERT INTO fence.marks SELECT 'account/' || lpad(i::text, 6, '0'), i, 'a' FROM generate_series(1, 50000) i")
		m.exec("ANALYZE fence.marks")
	} else {
		m.exec("INSERT INTO fence.marks SELECT CONCAT('account/', LPAD(seq, 6, '0')), seq, 'a' FROM seq_1_to_50000")
	}
	for _, order := range [][]string{nil, {"--oldest"}} {
		t.Run("prints before it has read the last one "+strings.Join(order, ""), func(t *testing.T) {
			t.Parallel()
			cmd, _ := command(t, m.args(append([]string{"list", "--json", "--limit", "1000000"}, order...)...)...)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			list := bufio.NewReader(out)
			first, err := list.ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, first, `"account/000001"`)
			if order == nil { // one long statement would still show this mark
				m.exec("DELETE FROM fence.marks WHERE number > 49999")
			}
			rest, err := io.ReadAll(list)
			require.NoError(t, err)
			require.NoError(t, cmd.Wait())
			require.GreaterOrEqual(t, strings.Count(string(rest), "\n"), 49_998)
			if order == nil {
				require.NotContains(t, string(rest), `"account/050000"`)
			}
		})
	}
	t.Run("ends with its reader", func(t *testing.T) {
		t.Parallel()
		cmd, _ := command(t, m.args("list", "--limit", "1000000")...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.Error(t, cmd.Wait())
		require.Equal(t, statusClosedPipe, cmd.ProcessState.ExitCode())
		require.Empty(t, errs.String())
	})
	t.Run("goes along the primary key", func(t *testing.T) {
		t.Parallel()
		if m.pool != nil {
			requireIndexOfPostgres(t, m)
			return
		}
		file, err := os.ReadFile("internal/marks/sql/mysql/list.sql")
		require.NoError(t, err)
		text := string(file)[strings.Index(string(file), "SELECT"):]
		text = strings.NewReplacer("{1}", "x'6163636f756e742f3031'", "{2}", "TRUE", "{3}", "1000").Replace(text)
		var plan struct{ id, selects, table, kind, keys, key, length, ref, rows, extra sql.NullString }
		m.one("EXPLAIN "+text, &plan.id, &plan.selects, &plan.table, &plan.kind, &plan.keys, &plan.key, &plan.length, &plan.ref, &plan.rows, &plan.extra)
		require.Equal(t, "range PRIMARY", plan.kind.String+" "+plan.key.String)
		require.NotContains(t, plan.extra.String, "filesort")
	})
}

func requireIndexOfPostgres(t *testing.T, m *marked) {
	t.Helper()
	file, err := os.ReadFile("internal/marks/sql/postgres/list.sql")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(file), `"fencepost"`, pgx.Identifier{m.schema}.Sanitize())
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, next := range []bool{false, true} {
			require.NoError(t, pgx.BeginFunc(t.Context(), m.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = "+mode)
				require.NoError(t, err)
				rows, _ := tx.Query(t.Context(), "EXPLAIN "+text, "account/01", next, 1000)
				plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				require.Contains(t, strings.Join(plan, "\n"), "Index Scan using marks_pkey")
				require.Contains(t, strings.Join(plan, "\n"), "Index Cond")
				require.NotContains(t, strings.Join(plan, "\n"), "Sort")
				return nil
			}))
		}
	}
}

// A writer chooses its holder. The table refuses control characters, but not characters
// that change the direction of the text, or that cannot be seen.
func TestMarksEscapesControlCharacters(t *testing.T) { onEach(t, testMarksEscapesControlCharacters) }

func testMarksEscapesControlCharacters(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	m.admit("account/\u202e42", 5, "red \u2066\U000e0041")
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"show", "account/\u202e42"}, {"show", "--json", "account/\u202e42"}} {
		done := m.run(args...)
		require.Zero(t, done.status, done.err)
		require.Contains(t, done.out, `account/\u202e42`)
		require.Contains(t, done.out, `red \u2066`)
		for _, raw := range []string{"\u202e", "\u2066", "\U000e0041"} {
			require.NotContains(t, done.out, raw)
		}
	}
	done := m.run("list", "--json")
	require.Equal(t, "red \u2066\U000e0041", objects(t, done.out)[0]["holder"], "JSON gives back what is there")
	require.NotContains(t, m.typing("x\n", "reset", "account/\u202e42").err, "\u202e")
	require.Equal(t, `\x1b[31m\u009b größe 42 \ufeff`, cli.Visible("\x1b[31m\u009b größe 42 \ufeff"))
}

package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestRunGivesTheTokenToTheProgram(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before token.Token
			for range 2 {
				done := lock.execute(t, "job/ä", "sh", "-c",
					`printf '%s\n' "$FENCING_TOKEN" "$FENCING_RESOURCE" "$FENCING_NUMBER" "$FENCING_HOLDER"`)
				require.Zero(t, done.status, done.err)
				lines := strings.Split(done.out, "\n")
				toks, err := httpguard.Parse(lines[:1])
				require.NoError(t, err)
				require.Len(t, toks, 1)
				require.Equal(t, []string{"job/ä", strconv.FormatInt(toks[0].Number, 10), toks[0].Holder, ""}, lines[1:])
				require.Greater(t, toks[0].Number, before.Number)
				require.NotEqual(t, toks[0].Holder, before.Holder)
				before = toks[0]
			}
		})
	}
}

// The SQL of docs/run.md is admitted, also for a name with a quote.
func TestRunsTokenIsAdmittedByItsParts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/run.md")
	require.NoError(t, err)
	statement := regexp.MustCompile(`SELECT fencepost\.admit\(:[^;]*`).FindString(string(page))
	require.NotEmpty(t, statement)
	pool, schema := testenv.Postgres(t)
	lock := runLocks(t)["redis"]
	admit := func() func() error {
		done := lock.execute(t, "job/o'neil", "sh", "-c", `echo "$FENCING_RESOURCE $FENCING_NUMBER $FENCING_HOLDER"`)
		require.Zero(t, done.status, done.err)
		parts := strings.Fields(done.out)
		text := inPsql(statement, map[string]string{"resource": parts[0], "number": parts[1], "holder": parts[2]})
		return func() error {
			_, err := pool.Exec(t.Context(), strings.Replace(text, "fencepost.", schema+".", 1))
			return err
		}
	}
	older, newer := admit(), admit()
	require.NoError(t, older())
	require.NoError(t, newer())
	require.ErrorContains(t, older(), "ZF001")
}

// If the lock and the marks are in one database, a program that begins raises the mark: an
// older program's writes are refused before the new program's first write.
func TestRunClaimsInPostgres(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	lock := runLock{flags: []string{"--postgres", testenv.PostgresURL(t), "--schema", schema}}
	var toks [2]token.Token
	for n := range toks {
		done := lock.execute(t, "job", "sh", "-c", `echo "$FENCING_TOKEN"`)
		require.NoError(t, toks[n].UnmarshalText([]byte(strings.TrimSpace(done.out))), done.err)
	}
	fence := &sqlguard.Guard{DB: pool, Schema: schema}
	require.ErrorIs(t, fence.Admit(t.Context(), toks[0]), guard.ErrStale)
	require.NoError(t, fence.Admit(t.Context(), toks[1]))
}

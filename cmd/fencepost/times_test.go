package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token/pgtoken"
)

var timeOfDay = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\s",;)]*`)

// otherTimes returns the times in text that are not written as RFC 3339 in UTC, and how many
// times there are.
func otherTimes(text string) (wrong []string, n int) {
	all := timeOfDay.FindAllString(text, -1)
	for _, at := range all {
		if _, err := time.Parse(time.RFC3339, at); err != nil || !strings.HasSuffix(at, "Z") {
			wrong = append(wrong, at)
		}
	}
	return wrong, len(all)
}

func TestOtherTimesAreFound(t *testing.T) {
	t.Parallel()
	wrong, n := otherTimes(`2026-11-29 17:30:03 UTC, 2026-11-29T17:30:03, "2026-11-29T17:30:03.25-05:00", 2026-11-29T17:30:03.25Z, 2026-11-29`)
	require.Equal(t, []string{"2026-11-29 17:30:03", "2026-11-29T17:30:03", "2026-11-29T17:30:03.25-05:00"}, wrong)
	require.Equal(t, 4, n)
}

// Two operators in two zones read the same time.
func TestTimesAreInUTC(t *testing.T) {
	t.Parallel()
	m, url, page := newMarked(t), testenv.Database(t), filepath.Join(t.TempDir(), "page.html")
	run := func(least int, line string, flags ...string) {
		t.Helper()
		cmd, _ := command(t, append(strings.Fields(line), flags...)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, append(cmd.Env, "TZ=America/New_York")
		_ = cmd.Run()
		wrong, n := otherTimes(out.String())
		require.Empty(t, wrong, "%s: %s", line, out.String())
		require.GreaterOrEqual(t, n, least, "%s: %s", line, out.String())
	}
	require.Zero(t, execute(t, "migrate", "up", "--postgres", url).status)
	m.admit("account/42", poison, "forged")
	m.raiseFloor(1000)
	m.write("account/42")
	iss := &pgtoken.Issuer{DB: m.pool, Schema: m.schema}
	_, err := iss.Acquire(t.Context(), "account/42", "a", time.Hour)
	require.NoError(t, err)
	for _, form := range []string{"", " --json"} {
		run(1, "locks list"+form, m.flags...)
		run(1, "locks show account/42"+form, m.flags...)
		run(5, "migrate status"+form, "--postgres", url)
		run(1, "marks list"+form, m.flags...)
		run(2, "marks show account/42"+form, m.flags...) // of the mark and the floor, or of a session
		run(1, "marks prune --older-than 30d --dry-run"+form, m.flags...)
		run(1, "marks prune --older-than 30d"+form, m.flags...)
		run(0, "doctor"+form, m.flags...)
	}
	run(1, "marks reset account/42 --number 999999999999998", m.flags...)
	run(1, "marks reset account/42 --wait 1ms", m.flags...) // it asks
	p := startProxy(t, "http://127.0.0.1:1", "--dangerously-memory", "--resource", "a")
	_, err = time.Parse(time.RFC3339Nano, p.line("listen")["time"].(string)) // in the machine's zone
	require.NoError(t, err)
	run(0, "simulate --rounds 1 --html "+page)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	wrong, _ := otherTimes(string(text))
	require.Empty(t, wrong)
}

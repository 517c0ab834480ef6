//go:build unix

package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestAnOperatorFindsTheSessionsOfARun(t *testing.T) {
	t.Parallel()
	url := testenv.Database(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", url).status)
	page, err := os.ReadFile("../../docs/run.md")
	require.NoError(t, err)
	query := regexp.MustCompile("SELECT [^`;]*pg_stat_activity[^`;]*").FindString(string(page))
	pool := pgtest.Pool(t, url, nil)
	shows := func(expected string) { // once the sessions of the run before have ended
		t.Helper()
		text := "SELECT coalesce(array_agg(DISTINCT application_name), '{}') FROM (" + query + ") AS run " +
			"WHERE pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
		shown := func() string { return strings.Join(pgtest.Query[[]string](t, pool, text), ", ") }
		require.Eventually(t, func() bool { return shown() == expected }, eventually, 5*time.Millisecond, shown())
	}
	for name, expected := range map[string]string{
		"account/42":                     "fencepost run account/42",
		"job/" + strings.Repeat("x", 60): "fencepost run job/" + strings.Repeat("x", 45),
	} {
		lock := runLock{flag: "--postgres"}.at(url)
		r := startRun(t, lock, nil, name, "sh", "-c", "echo ran; exec sleep 1000")
		require.Equal(t, "ran", r.line(1))
		shows(expected)
		r.signal(syscall.SIGTERM)
		require.Equal(t, 143, r.status())
	}
	mine := runLock{flag: "--postgres"}.at(url + "&application_name=mine") // the twin
	r := startRun(t, mine, nil, "account/42", "sh", "-c", "echo ran; exec sleep 1000")
	require.Equal(t, "ran", r.line(1))
	shows("")
	r.signal(syscall.SIGTERM)
	require.Equal(t, 143, r.status())
}

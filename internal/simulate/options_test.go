package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
)

func TestOptionsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*simulate.Options)
		text   string
	}{
		"no rounds":           {func(o *simulate.Options) { o.Rounds = 0 }, "rounds: 0"},
		"negative rounds":     {func(o *simulate.Options) { o.Rounds = -1 }, "rounds: -1"},
		"a ttl too short":     {func(o *simulate.Options) { o.TTL = time.Millisecond }, "ttl: 1ms"},
		"half a millisecond":  {func(o *simulate.Options) { o.TTL += 500 * time.Microsecond }, "ttl: 100.5ms"},
		"no writer":           {func(o *simulate.Options) { o.Writer = nil }, "writers"},
		"a redis address":     {func(o *simulate.Options) { o.Redis = "localhost:6379" }, "redis: not a redis:// URL"},
		"a postgres DSN":      {func(o *simulate.Options) { o.Postgres = "host=x password=sekret" }, "postgres: not a postgres:// URL"},
		"no URL of redis":     {func(o *simulate.Options) { o.Redis = "redis://u:sekret@[" }, "redis: not a URL"},
		"a port that is none": {func(o *simulate.Options) { o.Postgres = "postgres://u:sekret@h:port/" }, "postgres: not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			require.NoError(t, o.Check())
			c.change(&o)
			_, err := simulate.Run(t.Context(), o)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "sekret")
		})
	}
}

func TestServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*simulate.Options){
		"redis":    func(o *simulate.Options) { o.Redis = "redis://u:sekret@127.0.0.1:1" },
		"postgres": func(o *simulate.Options) { o.Postgres = "postgres://u:sekret@127.0.0.1:1/db" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			change(&o)
			_, err := simulate.Run(t.Context(), o)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, err, "cannot be used")
			require.NotContains(t, err.Error(), "sekret")
		})
	}
}

// A writer that dies is an error that says what it said, and no report.
func TestAWriterThatDies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		writer []string
		text   string
	}{
		"that is not there":  {[]string{"/nonexistent"}, "no such file"},
		"at once":            {[]string{"/bin/sh", "-c", "echo out of luck >&2; exit 3"}, "exit status 3: out of luck"},
		"after it was ready": {[]string{"/bin/sh", "-c", `echo '{"Kind":"ready"}'; read order; read order; kill -9 $$`}, "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			o.Writer = c.writer
			report, err := simulate.Run(t.Context(), o)
			require.ErrorContains(t, err, c.text)
			require.Nil(t, report)
		})
	}
}

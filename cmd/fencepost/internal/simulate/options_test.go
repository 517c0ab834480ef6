package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/simulate"
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
		"no URL of redis":     {func(o *simulate.Options) { o.Redis = "redis://u:sekret@[" }, "redis: not a redis:// URL"},
		"a port that is none": {func(o *simulate.Options) { o.Postgres = "postgres://u:sekret@h:port/" }, "postgres: not a postgres:// URL"},
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

// If a writer dies, the run returns an error with the writer's output, and no report.
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

// The count depends on the contents of the row, whatever the writers' replies were.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer                  simulate.Kind
		increments              string
		accepted, lost, refused int
	}{
		"refused, and not in the row":              {simulate.Refused, "B+20", 0, 0, 1},
		"refused, and in the row all the same":     {simulate.Refused, "B+20 A+50", 1, 0, 1},
		"refused, and it overwrote all the same":   {simulate.Refused, "A+50", 1, 1, 1},
		"accepted, over the successor's":           {simulate.Accepted, "A+50", 1, 1, 0},
		"accepted, beside the successor's":         {simulate.Accepted, "B+20 A+50", 1, 0, 0},
		"accepted, and not in the row":             {simulate.Accepted, "B+20", 1, 1, 0},
		"accepted, and the row has nothing at all": {simulate.Accepted, "", 1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := simulate.Counted(c.answer, c.increments)
			require.Equal(t, []int{1, c.accepted, c.lost, c.refused}, figures(count))
		})
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	good := simulate.Count{Name: simulate.Guarded, StaleAttempted: 3, Refused: 3}
	bad := simulate.Count{Name: simulate.Unguarded, StaleAttempted: 3, StaleAccepted: 3, UpdatesLost: 3}
	for name, c := range map[string]struct {
		runs              []simulate.Count
		fenced, corrupted bool
	}{
		"the fence holds":                     {[]simulate.Count{bad, good}, true, true},
		"a stale write was accepted":          {[]simulate.Count{bad, {Name: simulate.Guarded, StaleAttempted: 3, StaleAccepted: 1, Refused: 2}}, false, true},
		"an update was lost behind the guard": {[]simulate.Count{bad, {Name: simulate.Guarded, StaleAttempted: 3, UpdatesLost: 1, Refused: 3}}, false, true},
		"nothing stale was tried":             {[]simulate.Count{bad, {Name: simulate.Guarded}}, false, true},
		"nothing was lost without a guard":    {[]simulate.Count{{Name: simulate.Unguarded, StaleAttempted: 3}, good}, true, false},
		"nothing was run":                     {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := simulate.Report{Runs: c.runs}
			require.Equal(t, c.fenced, report.Fenced())
			require.Equal(t, c.corrupted, report.Corrupted())
		})
	}
}

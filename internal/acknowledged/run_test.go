package acknowledged_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations/history"
)

// run is some processes of holders, what is done to them, and what they say.
type run struct {
	*testing.T
	seed           uint64
	cells          []cell
	redis          *redis.Client
	pool           *pgxpool.Pool
	prefix, schema string
	recorder       *history.Recorder

	live              []*child.Process[said]
	reports           []*os.File
	reading           sync.WaitGroup
	pauses, forgotten int

	mu    sync.Mutex
	heard map[string]int // acknowledgements, by row
	total int
}

func newRun(t *testing.T, rows int) *run {
	t.Helper()
	r := &run{T: t, seed: seed(), cells: cells(rows), heard: map[string]int{}, recorder: history.NewRecorder()}
	t.Logf("%s=%d", envSeed, r.seed)
	r.redis, r.prefix = testenv.Redis(t)
	r.pool, r.schema = testenv.Postgres(t)
	open(t, r.pool, r.schema, r.cells)
	return r
}

// until lets them work until enough says so.
func (r *run) until(o order, enough func() bool) {
	r.Helper()
	for n := range processes {
		o.Process = n
		r.enter(o)
	}
	ctx, stop := context.WithCancel(r.Context())
	var faults sync.WaitGroup
	faults.Go(func() { r.pause(ctx) })
	faults.Go(func() { r.forget(ctx) })
	r.await(enough)
	stop()
	faults.Wait()
	for _, p := range r.live {
		require.NoError(r, p.Send(order{Stop: true}))
	}
	r.reading.Wait()
	for n, p := range r.live {
		p.End(r.Context())
		r.merge(r.reports[n])
	}
}

// enter starts a process and returns when it works.
func (r *run) enter(o order) {
	r.Helper()
	report, err := os.CreateTemp(r.TempDir(), "report")
	require.NoError(r, err)
	r.Cleanup(func() { report.Close() })
	p, err := child.Start[said](child.Command{
		Name: "holders", Argv: []string{os.Args[0]}, Env: []string{envRole + "=holders"}, Files: []*os.File{report},
	})
	require.NoError(r, err)
	r.Cleanup(p.Kill)
	o.Redis, o.Prefix, o.Postgres, o.Schema = testenv.RedisURL(r), r.prefix, testenv.PostgresURL(r), r.schema
	o.Seed, o.Rows = r.seed, r.cells[0].rows
	require.NoError(r, p.Send(o))
	ready, err := p.Next(r.Context())
	require.NoError(r, err)
	require.True(r, ready.Ready)
	r.live, r.reports = append(r.live, p), append(r.reports, report)
	r.reading.Go(func() { r.listen(p) })
}

func (r *run) listen(p *child.Process[said]) {
	for {
		said, err := p.Next(r.Context())
		if err != nil {
			r.Error(err)
			return
		}
		if said.Over {
			return
		}
		r.mu.Lock()
		r.heard[said.Acknowledged]++
		r.total++
		r.mu.Unlock()
	}
}

func (r *run) merge(report *os.File) {
	r.Helper()
	size, err := report.Seek(0, io.SeekEnd)
	require.NoError(r, err)
	require.NoError(r, r.recorder.Merge(io.NewSectionReader(report, 0, size)), fmt.Sprint(size, " bytes"))
}

package durability_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// run is a set of processes of holders, with the faults that hit them and their reports.
type run struct {
	*testing.T
	seed           uint64
	cells          []cell
	redis          *redis.Client
	pool           *pgxpool.Pool
	prefix, schema string
	recorder       *history.Recorder

	live              []*subprocess.Process[string]
	reports           []*os.File
	reading           sync.WaitGroup
	pauses, forgotten int

	mu       sync.Mutex
	received map[string]int // acknowledgements, by row
	total    int
}

func newRun(t *testing.T, rows int) *run {
	t.Helper()
	r := &run{T: t, seed: seed(), cells: cells(rows), received: map[string]int{}, recorder: history.NewRecorder()}
	t.Logf("%s=%d", envSeed, r.seed)
	r.redis, r.prefix = testenv.Redis(t)
	r.pool, r.schema = testenv.Postgres(t)
	open(t, r.pool, r.schema, r.cells)
	return r
}

// until lets the processes work until enough returns true.
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
		p.CloseInput()
	}
	r.reading.Wait()
	for _, report := range r.reports {
		r.merge(report)
	}
}

// enter starts a process and returns when it is ready.
func (r *run) enter(o order) {
	r.Helper()
	report, err := os.CreateTemp(r.TempDir(), "report")
	require.NoError(r, err)
	r.Cleanup(func() { report.Close() })
	c, err := subprocess.Self("holders", role)
	require.NoError(r, err)
	c.Files = []*os.File{report}
	o.Redis, o.Prefix, o.Postgres, o.Schema = testenv.RedisURL(r), r.prefix, testenv.PostgresURL(r), r.schema
	o.Seed, o.Rows = r.seed, r.cells[0].rows
	p, _, err := subprocess.Open[string](r.Context(), c, o)
	require.NoError(r, err)
	r.Cleanup(p.Kill)
	r.live, r.reports = append(r.live, p), append(r.reports, report)
	r.reading.Go(func() {
		if err := p.Listen(r.receive); err != nil {
			r.Error(err)
		}
	})
}

// receive counts an acknowledgement.
func (r *run) receive(row string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received[row]++
	r.total++
}

func (r *run) merge(report *os.File) {
	r.Helper()
	size, err := report.Seek(0, io.SeekEnd)
	require.NoError(r, err)
	require.NoError(r, r.recorder.Merge(io.NewSectionReader(report, 0, size)), fmt.Sprint(size, " bytes"))
}

const (
	pauseEvery  = 500 * time.Millisecond // on average
	longest     = 3 * ttl                // of a pause
	forgetEvery = 50 * time.Millisecond  // for a lock
	oneForgets  = 50                     // for one time that everything is forgotten
)

// pause stops the processes, one after the other, for up to three times the TTL, until
// ctx ends. They are stopped at any instruction. All holders of the other processes go on,
// and which write comes next is left to chance.
func (r *run) pause(ctx context.Context) {
	if !subprocess.CanStop {
		return
	}
	random := rand.New(rand.NewPCG(r.seed, 1000))
	for ctx.Err() == nil {
		wait(ctx, time.Duration(random.Int64N(int64(2*pauseEvery))))
		p := r.live[random.IntN(len(r.live))]
		length := time.Duration(random.Int64N(int64(longest)))
		if p.Stop() != nil || p.Stands(context.WithoutCancel(ctx)) != nil {
			return // the process has ended, and its error is reported elsewhere
		}
		wait(ctx, length)
		if p.Continue() != nil {
			return
		}
		r.pauses++
	}
}

// forget deletes a held lock, again and again until ctx ends, and now and then all locks
// with all other data of the issuers.
func (r *run) forget(ctx context.Context) {
	random := rand.New(rand.NewPCG(r.seed, 2000))
	for ctx.Err() == nil {
		wait(ctx, time.Duration(random.Int64N(int64(2*forgetEvery))))
		cell := r.cells[random.IntN(len(r.cells))]
		lock := resource(cell.keys()[random.IntN(cell.rows)])
		if random.IntN(oneForgets) == 0 {
			lock = ""
		}
		var err error
		if cell.Issuer == "pgtoken" {
			_, err = r.pool.Exec(ctx, in(r.schema, "DELETE FROM {schema}.leases WHERE $1 IN ('', resource)"), lock)
		} else {
			err = r.forgetKeys(ctx, lock)
		}
		if ctx.Err() == nil {
			require.NoError(r, err)
			r.forgotten++
		}
	}
}

// forgetKeys removes the keys of a lock, or all keys.
func (r *run) forgetKeys(ctx context.Context, lock string) error {
	found := r.redis.Scan(ctx, 0, r.prefix+":*"+lock, 1000).Iterator()
	for found.Next(ctx) {
		if err := r.redis.Unlink(ctx, found.Val()).Err(); err != nil {
			return err
		}
	}
	return found.Err()
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

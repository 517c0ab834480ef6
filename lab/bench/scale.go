package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func scaleMeasurements() []measurement {
	return []measurement{figure(manyMarks), figure(judged), figure(schedules)}
}

// The two databases differ only in the number of their marks and rows.
const (
	fewDatabase  = "few"
	manyDatabase = "many"
	few          = 1000
)

// sizes are smaller in a quick run.
func (e *env) size(large, small int) int {
	if e.pace.quick {
		return small
	}
	return large
}

const fillSQL = `
INSERT INTO fencepost.marks SELECT 'mark/' || i, 33, 'c2f1-worker-1' FROM generate_series(1, %[1]d) i;
CREATE TABLE spread (id bigint PRIMARY KEY, balance bigint NOT NULL, owner text NOT NULL) WITH (fillfactor = 50);
INSERT INTO spread SELECT id, 100, 'owner ' || id FROM generate_series(1, %[1]d) id;
ANALYZE spread, fencepost.marks;
CHECKPOINT`

func manyMarks(ctx context.Context, e *env) []row {
	many := e.size(1_000_000, 50_000)
	for name, n := range map[string]int{fewDatabase: few, manyDatabase: many} {
		e.fill(ctx, name, fmt.Sprintf(fillSQL, n))
	}
	of := func(what string, do func(pool *pgxpool.Pool, n int) op, limits targets) []row {
		open := func(database string, n int) opener {
			return func(ctx context.Context, c *client) op { return do(c.postgres(ctx, database, c.workers), n) }
		}
		return must(contest{
			name: fmt.Sprintf("one of %d, ", many), server: postgresServer, settings: alone,
			baseline: subject{name: fmt.Sprintf("one of %d, %s", few, what), open: open(fewDatabase, few)},
			others:   []subject{{name: what, open: open(manyDatabase, many), targets: limits}},
		}.measure(ctx, e))
	}
	plain := of("UPDATE of a row", updateAny, nil)
	limits := targets{}
	for _, col := range []column{overLink, overLoopback} {
		limit, _ := round(plain[1].cells[col][0].median) // no worse than the plain update
		limits[col] = []bound{atMost(limit)}
	}
	guarded := of("On.Exec under a mark", onAny, limits)
	return append(append(plain, guarded...), prune(ctx, e, many))
}

func (e *env) fill(ctx context.Context, database, sql string) {
	c := &client{env: e, workers: 1, sent: new(counter)}
	defer c.close()
	pool := c.postgres(ctx, database, 1)
	for _, statement := range strings.Split(sql, ";\n") { // CHECKPOINT must not be in a transaction
		must(pool.Exec(ctx, statement))
	}
}

func updateAny(pool *pgxpool.Pool, n int) op {
	return func(ctx context.Context, _ int) error {
		return execOne(ctx, pool, "UPDATE spread SET balance = balance + 1 WHERE id = $1", 1+rand.Int64N(int64(n)))
	}
}

func onAny(pool *pgxpool.Pool, n int) op {
	g := &sqlguard.Guard{DB: pool}
	return func(ctx context.Context, worker int) error {
		name := fmt.Sprintf("mark/%d", 1+rand.IntN(n))
		return execOne(token.NewContext(ctx, current(name)), g.On(name), updateSQL, account(worker))
	}
}

// prune deletes all marks, while four writers raise marks that are being deleted.
func prune(ctx context.Context, e *env, marks int) row {
	r := row{name: fmt.Sprintf("prune of %d marks: longest guarded write beside it, ms", marks)}
	c := &client{env: e, workers: 5, sent: new(counter)}
	defer c.close()
	pool := c.postgres(ctx, manyDatabase, c.workers)
	var cutoff, newer int64
	const numbers = "SELECT fencepost.number_at(clock_timestamp()), fencepost.number_at(clock_timestamp() + interval '1 hour')"
	check(pool.QueryRow(ctx, numbers).Scan(&cutoff, &newer))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, ended atomic.Int64 // the next mark to be deleted; whether all are deleted
	g := &sqlguard.Guard{DB: pool}
	longest := make([]time.Duration, c.workers-1)
	var writers sync.WaitGroup
	for i := range longest {
		writers.Go(func() {
			for ended.Load() == 0 {
				name := fmt.Sprintf("mark/%d", min(int(next.Load())+rand.IntN(1000), marks))
				tok := token.Token{Resource: name, Number: newer, Holder: "c2f1-worker-1"}
				start := time.Now()
				if err := execOne(token.NewContext(ctx, tok), g.On(name), updateSQL, account(i)); err != nil {
					stop(fmt.Errorf("beside prune: %w", err))
					return
				}
				longest[i] = max(longest[i], time.Since(start))
			}
		})
	}
	err := pruneAll(ctx, pool, cutoff, &next)
	ended.Store(1)
	writers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	check(err)
	r.cells[overLoopback] = []value{middle([]float64{slices.Max(longest).Seconds() * 1e3}, atMost(100))}
	return r
}

// pruneAll stores in next the number of the mark that is pruned next. It updates it now
// and then: marks that a writer has raised are not deleted.
func pruneAll(ctx context.Context, pool *pgxpool.Pool, cutoff int64, next *atomic.Int64) error {
	const nextSQL = "SELECT substr(resource, length('mark/') + 1)::bigint FROM fencepost.marks WHERE number < $1 LIMIT 1"
	for n := 0; ; n++ {
		if n%10 == 0 {
			var at int64
			err := pool.QueryRow(ctx, nextSQL, cutoff).Scan(&at)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil // all marks are pruned or raised
			}
			if err != nil {
				return err
			}
			next.Store(at)
		}
		var batch int64
		if err := pool.QueryRow(ctx, "SELECT fencepost.prune($1)", cutoff).Scan(&batch); err != nil {
			return err
		}
		next.Add(batch)
	}
}

var nanoseconds = regexp.MustCompile(`([0-9.]+) ns/op`)

// judged returns how long package history takes for a history without a fault, measured
// by its own benchmark.
func judged(ctx context.Context, e *env) []row {
	n := e.size(1_000_000, 250_000)
	r := row{name: fmt.Sprintf("%d operations judged, s", n)}
	out := goTool(ctx, "test", "-C", "../..", "-run", "^$", "-bench", fmt.Sprintf("^BenchmarkCheck$/^%d$", n), "-benchtime", "3x", "./internal/history")
	found := nanoseconds.FindStringSubmatch(out)
	if found == nil {
		check(fmt.Errorf("the benchmark of package history printed no time: %s", out))
	}
	r.cells[overLoopback] = []value{middle([]float64{must(strconv.ParseFloat(found[1], 64)) / 1e9}, e.target(atMost(1)))}
	return []row{r}
}

// schedules returns how long lab/explore takes.
func schedules(ctx context.Context, e *env) []row {
	n := e.size(100_000, 10_000)
	r := row{name: fmt.Sprintf("%d schedules explored, s", n)}
	folder := must(os.MkdirTemp("", "bench"))
	defer os.RemoveAll(folder)
	explore := filepath.Join(folder, "explore")
	goTool(ctx, "build", "-C", "..", "-o", explore, "./explore")
	start := time.Now()
	command(ctx, explore, "--schedules", fmt.Sprint(n), "--json")
	r.cells[overLoopback] = []value{middle([]float64{time.Since(start).Seconds()}, e.target(atMost(10)))}
	return []row{r}
}

// target returns b for the full size, and no target in a quick run.
func (e *env) target(b bound) bound {
	if e.pace.quick {
		return bound{}
	}
	return b
}

func goTool(ctx context.Context, args ...string) string { return command(ctx, "go", args...) }

func command(ctx context.Context, name string, args ...string) string {
	out, err := osexec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		check(fmt.Errorf("%s %v: %w: %s", name, args, err, out))
	}
	return string(out)
}

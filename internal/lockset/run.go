package lockset

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Run carries the experiment out once. Its figures come from the sets as they
// are at the end and from what the processes were told. Where ctx ends early it
// is an error. No process outlives it; what it wrote to the servers stays.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	pool, err := connectPostgres(ctx, c.Postgres, c.Schema)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	run := strings.ToLower(rand.Text()[:8])
	if err := create(ctx, pool, run, c.Ways); err != nil {
		return nil, err
	}
	var workers crew
	defer func() { workers.dismiss(ctx) }()
	report, err := c.carryOut(ctx, &workers, run)
	if err != nil {
		return nil, err
	}
	report.Servers, err = c.servers(ctx, pool)
	return report, errors.Join(err, c.countAll(ctx, pool, report, &workers.tally, run))
}

// carryOut returns when every process has ended what it had begun.
func (c Config) carryOut(ctx context.Context, workers *crew, run string) (*Report, error) {
	for i := range c.Processes {
		if _, err := workers.hire(c.Argv, c.Env, c.setup(run, i)); err != nil {
			return nil, err
		}
	}
	if err := workers.begin(ctx); err != nil {
		return nil, err
	}
	p := pauses{crew: workers, every: c.Every, ttl: c.TTL, random: randv2.New(randv2.NewPCG(c.Seed, 0))}
	timed, cancel := context.WithTimeout(ctx, c.Length)
	defer cancel()
	if err := p.until(timed); err != nil {
		return nil, err
	}
	if err := workers.quit(ctx); err != nil {
		return nil, err
	}
	return &Report{Runs: 1, Length: c.Length, Pauses: p.count, Paused: p.paused, Longer: p.longer}, nil
}

func (c Config) setup(run string, i int) setup {
	return setup{
		Run: run, Name: fmt.Sprintf("worker-%d", i+1), Index: i + 1, Of: c.Processes, Ways: c.Ways,
		Redis: c.Redis, Prefix: c.Prefix, Postgres: c.Postgres, Schema: c.Schema,
		TTL: c.TTL, Work: c.Work, Idle: c.Idle, Seed: c.Seed,
	}
}

func (c Config) countAll(ctx context.Context, pool *pgxpool.Pool, r *Report, t *tally, run string) error {
	for _, way := range c.Ways {
		s, err := readSet(ctx, pool, setName(run, way))
		if err != nil {
			return err
		}
		r.Counts = append(r.Counts, t.count(way, s.members))
	}
	r.Troubles, r.Trouble = t.troubles, t.trouble
	return nil
}

// create makes an empty set for each way.
func create(ctx context.Context, pool *pgxpool.Pool, run string, ways []Way) error {
	if _, err := pool.Exec(ctx, createSQL); err != nil {
		return fmt.Errorf("lockset: sets: %w", err)
	}
	for _, way := range ways {
		if _, err := pool.Exec(ctx, insertSQL, setName(run, way)); err != nil {
			return fmt.Errorf("lockset: sets: %w", err)
		}
	}
	return nil
}

// servers says what this was run on.
func (c Config) servers(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	var postgres string
	if err := pool.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1)").Scan(&postgres); err != nil {
		return "", fmt.Errorf("lockset: postgres: %w", err)
	}
	client, err := connectRedis(ctx, c.Redis)
	if err != nil {
		return "", err
	}
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("lockset: redis: %w", err)
	}
	_, redis, _ := strings.Cut(info, "redis_version:")
	redis, _, _ = strings.Cut(redis, "\r\n")
	return fmt.Sprintf("Redis %s, PostgreSQL %s, %s", redis, postgres, runtime.Version()), nil
}

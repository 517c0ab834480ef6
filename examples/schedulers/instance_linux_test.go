package schedulers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/schedulers"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
)

const (
	role = "leader/reports"
	ttl  = 500 * time.Millisecond
)

// every is the time between two ticks. That of asynq's scheduler is a second at least.
func every(subject string) time.Duration {
	if subject == "asynq" {
		return time.Second
	}
	return 100 * time.Millisecond
}

// setup is what an instance is given when it starts.
type setup struct {
	Subject, Name    string
	URL, Redis, NATS string
	Guarded          bool
}

// report is the first report of an instance, or says that it is about to stop itself.
type report struct{ Name, Key string }

// instance is one of three processes.
type instance struct {
	setup
	parent    *subprocess.Parent
	pool      *pgxpool.Pool
	fence     *sqlguard.Guard
	candidate *lock.Candidate
}

// serve returns the role of an instance, which runs until its input ends.
func serve(run func(ctx context.Context, i *instance) error) func(*subprocess.Parent) error {
	return func(parent *subprocess.Parent) error {
		slog.SetDefault(slog.New(slog.DiscardHandler))
		i := &instance{parent: parent}
		if err := parent.Receive(&i.setup); err != nil {
			return err
		}
		pool, err := pgxpool.New(context.Background(), i.URL)
		if err != nil {
			return err
		}
		defer pool.Close()
		i.pool, i.fence = pool, &sqlguard.Guard{DB: pool, IdleTimeout: ttl}
		locks := &lock.Locker{Issuer: &pgtoken.Issuer{DB: pool}, Claim: i.fence.Admit, TTL: ttl}
		i.candidate = &lock.Candidate{Locker: locks, Resource: role, Value: i.Name}
		ctx, cancel := parent.UntilClosed(context.Background())
		defer cancel()
		parent.Report(report{Name: i.Name})
		if err := run(ctx, i); ctx.Err() == nil {
			return fmt.Errorf("ended too early: %w", err)
		}
		return nil
	}
}

// effect is the write of all subjects. Before it, one instance of each round stops itself.
// Without the guard, the effect is a statement of its own, outside of the transaction. The
// end of ctx stops neither: the write is on its way.
func (i *instance) effect(ctx context.Context, tx pgx.Tx, key string) error {
	ctx = context.WithoutCancel(ctx)
	tag, err := i.pool.Exec(ctx, "UPDATE pause SET free = false WHERE free")
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 1 {
		i.parent.Report(report{i.Name, key})
		if err := i.parent.Pause(subprocess.SelfStopped); err != nil {
			return err
		}
	}
	exec := tx.Exec
	if !i.Guarded {
		exec = i.pool.Exec
	}
	_, err = exec(ctx, "INSERT INTO effects VALUES ($1, $2)", key, i.Name)
	return err
}

func (i *instance) job() *schedulers.Job {
	return &schedulers.Job{Resource: role, Pool: i.pool, Fence: i.fence, Every: every(i.Subject),
		Work: func(ctx context.Context, tx pgx.Tx, tick time.Time) error {
			return i.effect(ctx, tx, tick.UTC().Format(time.RFC3339Nano))
		}}
}

func runGocron(ctx context.Context, i *instance) error {
	s, err := schedulers.Gocron(i.candidate, i.job())
	if err != nil {
		return err
	}
	s.Start()
	err = i.candidate.Run(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	return errors.Join(err, s.Shutdown())
}

func runAsynq(ctx context.Context, i *instance) error {
	redis := asynq.RedisClientOpt{Addr: i.Redis}
	server := asynq.NewServer(redis, asynq.Config{Concurrency: 2, LogLevel: asynq.FatalLevel, TaskCheckInterval: 50 * time.Millisecond})
	mux := asynq.NewServeMux()
	mux.Handle("report", schedulers.AsynqHandler(i.job()))
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	for { // until ctx ends
		if err := schedulers.Asynq(ctx, i.candidate, redis, "@every 1s", "report"); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// order is the work of River's jobs.
type order struct {
	Key string `json:"key"`
}

func (order) Kind() string { return "order" }

func runRiver(ctx context.Context, i *instance) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &schedulers.RiverWorker[order]{Fence: i.fence,
		Apply: func(ctx context.Context, tx pgx.Tx, o order) error { return i.effect(ctx, tx, o.Key) }})
	client, err := river.NewClient(riverpgxv5.New(i.pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		Middleware:        []rivertype.Middleware{schedulers.RiverMint(i.fence)},
		FetchPollInterval: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	return client.Stop(context.WithoutCancel(ctx))
}

func runNATS(ctx context.Context, i *instance) error {
	conn, err := nats.Connect(i.NATS)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "orders")
	if err != nil {
		return err
	}
	c := schedulers.Consumer{Candidate: i.candidate, Stream: stream, Pool: i.pool, Fence: i.fence,
		Apply: func(ctx context.Context, tx pgx.Tx, msg jetstream.Msg) error {
			return i.effect(ctx, tx, string(msg.Data()))
		}}
	for ctx.Err() == nil { // an error of a message ends a Run
		if err = c.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return err
}

// program builds the NATS server from its module, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "nats-server.schedulers")
	build := exec.Command("go", "build", "-modfile=go.mod", "-o", path, "github.com/nats-io/nats-server/v2")
	build.Dir, build.Env = "../../contrib/natstoken/internal/server", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build of nats-server in %s: %w: %s", build.Dir, err, out)
	}
	return path, nil
})

// startNATS starts a server for the test, and returns its URL.
func startNATS(t *testing.T) string {
	path, err := program()
	require.NoError(t, err)
	p, err := serverproc.Start(serverproc.Program{Title: path, Ready: "Server is ready", Argv: func(folder string, port int) []string {
		return []string{path, "--addr", "127.0.0.1", "--port", fmt.Sprint(port), "--jetstream", "--store_dir", folder + "/data"}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Remove()) })
	return "nats://" + serverproc.Loopback(p.Port)
}

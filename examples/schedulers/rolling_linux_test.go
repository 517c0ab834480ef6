package schedulers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/schedulers"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func TestMain(m *testing.M) {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{
		"gocron": serve(runGocron), "asynq": serve(runAsynq), "river": serve(runRiver), "nats": serve(runNATS),
	})
	leaktest.Main(m)
}

// Only a hang reaches the limit of a step.
const limit = 2 * time.Minute

// site is what three instances share.
type site struct {
	t       *testing.T
	setup   setup
	pool    *pgxpool.Pool
	feed    func(round int)  // gives the instances work, if it does not come by the clock
	rescue  func(key string) // gives the work of a stopped process to another one
	due     func() int       // how many keys must have had an effect in the end
	started int
	running []*subprocess.Process[report]
	reports chan report
}

const tables = schedulers.Schema + `;
	CREATE TABLE effects (key text NOT NULL, by text NOT NULL);
	CREATE INDEX ON effects (key);
	CREATE TABLE pause (free bool NOT NULL);
	INSERT INTO pause VALUES (false)`

func open(t *testing.T, subject string, guarded bool) *site {
	url := testenv.Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	testenv.Migrate(t, url)
	s := &site{t: t, pool: pool, setup: setup{Subject: subject, URL: url, Guarded: guarded}, reports: make(chan report, 1),
		feed: func(int) {}, rescue: func(string) {}}
	s.exec(tables)
	s.exec("INSERT INTO ticks VALUES ($1, date_trunc('second', now()))", role)
	s.due = func() int {
		return s.count(`SELECT round(extract(epoch FROM max(key::timestamptz) - min(key::timestamptz)) / $1)::int + 1 FROM effects`, every(subject).Seconds())
	}
	fed := 0
	switch subject {
	case "asynq":
		s.setup.Redis = testenv.OwnRedis(t).Addr()
	case "river":
		driver := riverpgxv5.New(pool)
		migrator, err := rivermigrate.New(driver, nil)
		require.NoError(t, err)
		_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
		require.NoError(t, err)
		client, err := river.NewClient(driver, &river.Config{})
		require.NoError(t, err)
		s.feed = func(round int) {
			for n := range 3 {
				_, err := client.Insert(t.Context(), order{Key: fmt.Sprintf("%d-%d", round, n)}, nil)
				require.NoError(t, err)
				fed++
			}
		}
		s.rescue = func(key string) { // what River does with a job that has run for RescueStuckJobsAfter
			s.exec("UPDATE river_job SET state = 'available', scheduled_at = now() WHERE args->>'key' = $1", key)
		}
		s.due = func() int { return fed }
	case "nats":
		s.setup.NATS = startNATS(t)
		conn, err := nats.Connect(s.setup.NATS)
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		require.NoError(t, err)
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders"}})
		require.NoError(t, err)
		s.exec("INSERT INTO offsets VALUES ('orders', 0)")
		s.feed = func(round int) {
			for n := range 3 {
				_, err := js.Publish(t.Context(), "orders", fmt.Appendf(nil, "%d-%d", round, n))
				require.NoError(t, err)
				fed++
			}
		}
		s.due = func() int { return fed }
	}
	for range 3 {
		s.running = append(s.running, s.start())
	}
	t.Cleanup(func() {
		for _, p := range s.running {
			p.End(t.Context()) // it has ended: they are killed
		}
	})
	return s
}

func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

func (s *site) count(sql string, args ...any) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&n))
	return n
}

func (s *site) step() context.Context {
	ctx, cancel := subprocess.Within(s.t.Context(), limit)
	s.t.Cleanup(cancel)
	return ctx
}

// start starts an instance, and returns when it is ready.
func (s *site) start() *subprocess.Process[report] {
	s.started++
	c, err := subprocess.Self(fmt.Sprintf("instance %d", s.started), s.setup.Subject)
	require.NoError(s.t, err)
	setup := s.setup
	setup.Name = fmt.Sprint(s.started)
	p, _, err := subprocess.Open[report](s.step(), c, setup)
	require.NoError(s.t, err)
	return p
}

// round stops the instance that is about to write, lets another one do its work, continues
// it, and restarts all three, one after the other.
func (s *site) round(n int) {
	s.exec("UPDATE pause SET free = true")
	s.feed(n)
	stopped, paused := s.nextReport()
	require.NoError(s.t, stopped.Suspend(s.step(), subprocess.SelfStopped))
	leader := s.stopLeader(paused.Name)
	s.rescue(paused.Key)
	require.Eventually(s.t, func() bool {
		return s.count("SELECT count(*) FROM effects WHERE key = $1 AND by <> $2", paused.Key, paused.Name) > 0
	}, limit, 5*time.Millisecond, "no other instance does %s", paused.Key)
	if leader != nil {
		require.NoError(s.t, leader.Continue())
	}
	require.NoError(s.t, stopped.Resume(subprocess.SelfStopped))
	for i, p := range s.running {
		p.End(s.step()) // when its work has ended
		s.running[i] = s.start()
	}
}

// stopLeader stops the leader too, if that is another instance than the one that has
// stopped itself: a worker of asynq need not be the leader.
func (s *site) stopLeader(stopped string) *subprocess.Process[report] {
	observer := lock.Observer{Inspector: &pgtoken.Issuer{DB: s.pool}, Resource: role}
	now, err := observer.Leader(s.t.Context())
	require.NoError(s.t, err)
	for i, p := range s.running {
		if name := fmt.Sprint(s.started - len(s.running) + 1 + i); name == now.Value && name != stopped {
			require.NoError(s.t, p.Stop())
			require.NoError(s.t, p.Stands(s.step()))
			return p
		}
	}
	return nil
}

// nextReport waits until an instance is about to stop itself.
func (s *site) nextReport() (*subprocess.Process[report], report) {
	type from struct {
		p *subprocess.Process[report]
		r report
		e error
	}
	ctx, cancel := context.WithCancel(s.step())
	defer cancel()
	first := make(chan from, len(s.running))
	for _, p := range s.running {
		go func() {
			r, err := p.Next(ctx)
			first <- from{p, r, err}
		}()
	}
	f := <-first
	require.NoError(s.t, f.e)
	cancel()
	for range len(s.running) - 1 {
		<-first
	}
	return f.p, f.r
}

func rollingRestarts(t *testing.T, rounds int) {
	for _, subject := range []string{"gocron", "asynq", "river", "nats"} {
		for name, guarded := range map[string]bool{"guarded": true, "the twin writes outside of the guard": false} {
			t.Run(subject+", "+name, func(t *testing.T) {
				t.Parallel()
				s := open(t, subject, guarded)
				for n := range rounds {
					s.round(n)
				}
				require.Eventually(t, func() bool { return s.count("SELECT count(DISTINCT key) FROM effects") >= s.due() }, limit, 10*time.Millisecond)
				for _, p := range s.running {
					p.End(s.step())
				}
				keys := s.count("SELECT count(DISTINCT key) FROM effects")
				extra := s.count("SELECT count(*) FROM effects") - keys
				t.Logf("%s: %d stops, %d starts, %d keys, %d effects too many", t.Name(), rounds, s.started, keys, extra)
				if guarded {
					require.Zero(t, extra)
				} else {
					require.GreaterOrEqual(t, extra, rounds)
				}
			})
		}
	}
}

// hazard G2
func TestNoTickTakesEffectTwice(t *testing.T) { rollingRestarts(t, 5) }

func TestStressNoTickTakesEffectTwice(t *testing.T) {
	rollingRestarts(t, testenv.Rounds(t, "FENCEPOST_RESTARTS", 100))
}

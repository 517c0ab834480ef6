package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/leader"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/etcdtoken"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestMain(m *testing.M) {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{"planner": plan})
	leaktest.Main(m)
}

const (
	ttl      = time.Second
	interval = 100 * time.Millisecond
	limit    = 2 * time.Minute // only a hang reaches it
)

// setup is what an instance is given when it starts.
type setup struct{ Name, Data, Issuer, Server string }

// event is a term that has begun or ended, or what an observer has read.
type event struct {
	Of     string // the process
	Leads  bool
	Ended  bool // the test has killed or stopped it, or told it to resign
	Number int64
	Holder string
	Failed bool // the read
	At     time.Time
}

func connect(issuer, server string) (token.Issuer, func(), error) {
	switch issuer {
	case "pgtoken":
		pool, err := pgxpool.New(context.Background(), server)
		if err != nil {
			return nil, nil, err
		}
		iss := &pgtoken.Issuer{DB: pool}
		return iss, func() { _ = iss.Close(); pool.Close() }, nil
	case "redistoken":
		client := redis.NewClient(&redis.Options{Addr: server})
		return &redistoken.Issuer{Client: client}, func() { _ = client.Close() }, nil
	}
	return etcdtoken.New(etcdtoken.Config{Endpoints: []string{server}}), func() {}, nil
}

// observe reports what an observer yields, until ctx ends.
func observe(ctx context.Context, of string, iss token.Issuer, report func(event)) {
	o := lock.Observer{Inspector: iss.(token.Inspector), Resource: role, Interval: interval}
	for ctx.Err() == nil {
		for l, err := range o.All(ctx) {
			report(event{Of: of, Number: l.Number, Holder: l.Holder, Failed: err != nil, At: time.Now()})
		}
		time.Sleep(interval) // an error that was not an outage
	}
}

// plan is an instance: a candidate that leads, and an observer.
func plan(parent *subprocess.Parent) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var s setup
	if err := parent.Receive(&s); err != nil {
		return err
	}
	data, err := pgxpool.New(context.Background(), s.Data)
	if err != nil {
		return err
	}
	defer data.Close()
	iss, closeIssuer, err := connect(s.Issuer, s.Server)
	if err != nil {
		return err
	}
	defer closeIssuer()
	fence := &sqlguard.Guard{DB: data, IdleTimeout: ttl}
	claim := func(ctx context.Context, tok token.Token) error {
		err := fence.Admit(ctx, tok)
		if err == nil {
			parent.Report(event{Of: s.Name, Leads: true, Number: tok.Number, Holder: tok.Holder, At: time.Now()})
		}
		return err
	}
	p := leader.Planner{Fence: fence, Every: interval,
		Candidate: &lock.Candidate{Locker: &lock.Locker{Issuer: iss, Claim: claim, TTL: ttl}, Resource: role, Value: s.Name}}
	parent.Report(event{Of: s.Name})
	ctx, cancel := parent.UntilClosed(context.Background())
	defer cancel()
	var observing sync.WaitGroup
	observing.Go(func() { observe(ctx, s.Name, iss, func(e event) { parent.Report(e) }) })
	for ctx.Err() == nil {
		if err = p.Run(ctx); err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	observing.Wait()
	return nil
}

// site is three instances on one server of locks.
type site struct {
	t       *testing.T
	setup   setup
	restart func() // kills and restarts the server of the locks
	mu      sync.Mutex
	events  []event
	running map[string]*subprocess.Process[event]
	reading sync.WaitGroup
	started int
}

func (s *site) add(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *site) start() {
	s.started++
	setup := s.setup
	setup.Name = fmt.Sprint(s.started)
	c, err := subprocess.Self("instance "+setup.Name, "planner")
	require.NoError(s.t, err)
	ctx, cancel := subprocess.Within(s.t.Context(), limit)
	defer cancel()
	p, _, err := subprocess.Open[event](ctx, c, setup)
	require.NoError(s.t, err)
	s.running[setup.Name] = p
	s.reading.Go(func() { _ = p.Listen(s.add) })
}

// agreed waits until an instance other than former leads, and all observers that run have
// read it. It returns the instance.
func (s *site) agreed(former string, stopped ...string) (now string) {
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		var term event
		last := map[string]string{}
		for _, e := range s.events {
			if e.Leads && e.Number > term.Number {
				term = e
			}
		}
		for _, e := range s.events {
			if !e.Leads && !e.Ended {
				last[e.Of] = e.Holder
			}
		}
		for name := range s.running {
			if last[name] != term.Holder && !slices.Contains(stopped, name) {
				return false
			}
		}
		now = term.Of
		return term.Of != former && s.running[now] != nil && last["outside"] == term.Holder
	}, limit, 5*time.Millisecond)
	return now
}

// round ends a term in one of four ways.
func (s *site) round(n int, former string) (now string) {
	p := s.running[former]
	ctx, cancel := subprocess.Within(s.t.Context(), limit)
	defer cancel()
	s.add(event{Of: former, Ended: true, At: time.Now()})
	switch n % 4 {
	case 0:
		p.Kill()
	case 1:
		require.NoError(s.t, p.Stop())
		require.NoError(s.t, p.Stands(ctx))
		now = s.agreed(former, former)
		require.NoError(s.t, p.Continue())
		return s.agreed(former)
	case 2:
		p.CloseInput()
		<-p.Ended()
	case 3:
		p.Kill()
		s.restart()
	}
	delete(s.running, former)
	s.start()
	return s.agreed(former)
}

// hazard L31
func TestObserversOfThreeProcesses(t *testing.T) { observers(t, 4) }

func TestStressObserversOfThreeProcesses(t *testing.T) {
	observers(t, testenv.Rounds(t, "FENCEPOST_FAILOVERS", 40))
}

func observers(t *testing.T, rounds int) {
	for issuer, open := range map[string]func(t *testing.T) (server string, restart func()){
		"pgtoken": func(t *testing.T) (string, func()) {
			s := testenv.OwnPostgres(t)
			testenv.Migrate(t, s.URL())
			return s.URL(), func() { s.Kill(); s.Restart() }
		},
		"redistoken": func(t *testing.T) (string, func()) {
			s := testenv.OwnRedis(t) // without a disk: it forgets its numbers
			return s.Addr(), func() { s.Kill(); s.Restart() }
		},
		"etcdtoken": func(t *testing.T) (string, func()) {
			s := testenv.OwnEtcd(t)
			return s.URL(), func() { s.Kill(); s.Restart() }
		},
	} {
		t.Run(issuer, func(t *testing.T) {
			t.Parallel()
			server, restart := open(t)
			s := &site{t: t, restart: restart, running: map[string]*subprocess.Process[event]{},
				setup: setup{Data: database(t).Config().ConnString(), Issuer: issuer, Server: server}}
			iss, closeIssuer, err := connect(issuer, server)
			require.NoError(t, err)
			defer closeIssuer()
			ctx, cancel := context.WithCancel(t.Context())
			var outside sync.WaitGroup
			outside.Go(func() { observe(ctx, "outside", iss, s.add) })
			defer func() {
				cancel()
				outside.Wait()
				for _, p := range s.running {
					p.Kill()
				}
				s.reading.Wait()
			}()
			for range 3 {
				s.start()
			}
			now := s.agreed("")
			for n := range rounds {
				now = s.round(n, now)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.judge(rounds)
		})
	}
}

// judge requires that the numbers of no observer fall, and that they agree with the terms.
// It prints for how long each observer was wrong: from when the test ended a term, until the
// observer read another leader or none, and until it read the next leader.
func (s *site) judge(rounds int) {
	terms := slices.DeleteFunc(slices.Clone(s.events), func(e event) bool { return !e.Leads })
	slices.SortFunc(terms, func(a, b event) int { return int(a.Number - b.Number) })
	number, holder := map[string]int64{}, map[string]string{} // the last reading of each observer
	reads, failed := 0, 0
	var former, next durations
	ended := map[string]time.Time{} // of terms, by holder
	waits := map[string]time.Time{} // of observers, since when a term that they have read is over
	for _, e := range s.events {
		switch {
		case e.Leads:
			continue
		case e.Ended:
			for of, read := range holder {
				i := slices.IndexFunc(terms, func(term event) bool { return term.Holder == read })
				if i >= 0 && terms[i].Of == e.Of && of != e.Of {
					ended[read], waits[of] = e.At, e.At
				}
			}
			continue
		case e.Failed:
			failed++
			continue
		}
		reads++
		require.GreaterOrEqual(s.t, e.Number, number[e.Of], "the number of observer %s fell", e.Of)
		if at, over := ended[holder[e.Of]]; over && e.Holder != holder[e.Of] {
			former = append(former, e.At.Sub(at))
		}
		if at := waits[e.Of]; !at.IsZero() && e.Holder != "" && ended[e.Holder].IsZero() {
			next = append(next, e.At.Sub(at))
			delete(waits, e.Of)
		}
		number[e.Of], holder[e.Of] = e.Number, e.Holder
		if i := slices.IndexFunc(terms, func(term event) bool { return term.Holder == e.Holder }); i >= 0 {
			// It may be below the term's own: an acquisition whose reply was lost is repeated.
			if i > 0 {
				require.Greater(s.t, e.Number, terms[i-1].Number)
			}
			if i+1 < len(terms) {
				require.Less(s.t, e.Number, terms[i+1].Number)
			}
		}
	}
	require.NotEmpty(s.t, former)
	require.NotEmpty(s.t, next)
	s.t.Logf("%s: %d terms ended, %d readings, no number fell, %d reads failed. The former leader was read for %s; the next one was read after %s. TTL %s, interval %s",
		s.setup.Issuer, rounds, reads, failed, former, next, ttl, interval)
}

type durations []time.Duration

func (d durations) String() string {
	slices.Sort(d)
	at := func(i int) time.Duration { return d[i].Round(10 * time.Millisecond) }
	return fmt.Sprintf("%s (median), %s (9 of 10), %s (longest)", at(len(d)/2), at(len(d)*9/10), at(len(d)-1))
}

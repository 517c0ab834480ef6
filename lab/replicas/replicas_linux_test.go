// Package replicas tests a whole service: two processes of it over one PostgreSQL, and
// callers in processes of their own, which take the lock on a real Redis and write over
// HTTP. One process is stopped by the kernel at the worst points, and its successor does
// its whole work meanwhile.
//
//	caller A ──▶ replica 1 ──┐
//	                         ├──▶ PostgreSQL
//	caller B ──▶ replica 2 ──┘
//
// All processes are this test binary.
package replicas_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations/process"
)

func TestMain(m *testing.M) {
	roles := map[string]func(*subprocess.Parent) error{}
	for name, role := range map[string]func(*worker, context.Context) error{"replica": (*worker).serve, "caller": (*worker).call} {
		roles[name] = func(parent *subprocess.Parent) error {
			w := &worker{Parent: parent}
			if err := w.Receive(&w.setup); err != nil {
				return err
			}
			return role(w, context.Background())
		}
	}
	subprocess.Serve(roles)
	leaktest.Main(m)
}

func (about story) String() string {
	if about.same {
		return string(about.stand) + ", same replica"
	}
	return string(about.stand)
}

// Wherever A is stopped, and whichever replica its successor uses, no write of A is
// applied after its successor's. The unguarded twin is corrupted each time.
//
// A middleware that checks the database, followed by an unguarded write, is a check and
// an act. It is enough if A is stopped between two requests, since the next request is
// checked. It is also enough inside one process, where the in-flight table holds until
// the handler has returned. With a second replica it is corrupted each time that A was
// admitted before it was stopped.
//
// hazard W1
func TestStressReplicas(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		story
		checkHolds bool
	}{
		{story{stand: read}, true},
		{story{stand: written}, true},
		{story{stand: halfway}, false},
		{story{stand: admitted}, false},
		{story{stand: halfway, same: true}, true},
	} {
		t.Run(test.String(), func(t *testing.T) {
			t.Parallel()
			s, n := newStage(t), testenv.Rounds(t, process.EnvRounds, 10)
			requireFenced(t, s.run(t, guarded, test.story, n), test.story)
			requireCorrupted(t, s.run(t, observed, test.story, n))
			if f := s.run(t, checked, test.story, n); test.checkHolds {
				requireFenced(t, f, test.story)
			} else {
				requireCorrupted(t, f)
			}
		})
	}
}

// requireFenced requires that no late write was applied and that each caller got an
// error. A caller whose body was cut off may have found its connection closed instead.
func requireFenced(t *testing.T, f figures, about story) {
	t.Helper()
	require.Empty(t, f.broken)
	require.Zero(t, f.falls)
	require.Zero(t, f.late[history.Accepted])
	if about.same {
		require.Equal(t, f.rounds, f.late[history.Refused]+f.late[history.Unknown])
		return
	}
	require.Equal(t, f.rounds, f.late[history.Refused])
}

// requireCorrupted requires that in each round the late write was acknowledged and
// applied after a newer one, and an acknowledged write was lost.
func requireCorrupted(t *testing.T, f figures) {
	t.Helper()
	require.Equal(t, f.rounds, f.late[history.Accepted])
	require.Equal(t, f.rounds, f.falls)
	require.Equal(t, f.rounds, f.corrupted)
	lost := 0
	for _, v := range f.broken {
		if v.Rule.ID == "once" {
			lost++
		}
	}
	require.Equal(t, f.rounds, lost)
}

// stepTimeout bounds one step of a round.
const stepTimeout = 5 * time.Minute

type peer = *subprocess.Process[event]

// stage is two replicas and two callers, for any number of rounds.
type stage struct {
	setup
	ledger
	pool     *pgxpool.Pool
	replicas [2]peer
	a, b     peer
	accounts int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{setup: setup{Postgres: testenv.PostgresURL(t), Redis: testenv.RedisURL(t), Started: time.Now().Round(0)}}
	s.pool, s.Schema = testenv.Postgres(t)
	_, s.Prefix = testenv.Redis(t)
	s.ledger = ledgerOf(s.Schema)
	_, err := s.pool.Exec(t.Context(), s.creates)
	require.NoError(t, err)
	ctx, cancel := subprocess.Within(t.Context(), stepTimeout)
	defer cancel()
	for n := range s.replicas {
		s.replicas[n] = s.start(t, "replica", strconv.Itoa(n+1))
		serves, err := s.replicas[n].Next(ctx)
		require.NoError(t, err)
		s.Replicas = append(s.Replicas, serves.Address)
	}
	s.a, s.b = s.start(t, "caller", "A"), s.start(t, "caller", "B")
	return s
}

// start starts a process and sends it the setup. The process is ended before the servers,
// even if it is stopped.
func (s *stage) start(t *testing.T, role, name string) peer {
	t.Helper()
	c, err := subprocess.Self(role+" "+name, role)
	require.NoError(t, err)
	p, err := subprocess.Start[event](c)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			p.Kill()
		}
		p.End(context.WithoutCancel(t.Context()))
	})
	of := s.setup
	of.Name = name
	require.NoError(t, p.Send(of))
	return p
}

// open makes n accounts, one for each round, and returns the first.
func (s *stage) open(t *testing.T, n int) (first int) {
	t.Helper()
	first = s.accounts + 1
	s.accounts += n
	_, err := s.pool.Exec(t.Context(), s.opens, first, s.accounts)
	require.NoError(t, err)
	return first
}

// story is where A is stopped, and which replica B uses.
type story struct {
	stand stand
	same  bool // B uses the same replica as A
}

// round plays a story on an account of its own. It returns the ops of both callers, and
// the outcome of A's write after B's.
func (s *stage) round(t *testing.T, way string, about story, n int) (ops []history.Op, late history.Outcome, p page) {
	t.Helper()
	account, here, there := strconv.Itoa(n), n%2, 1-n%2
	if about.same {
		there = here
	}
	ofA := order{
		Account: account, Way: way, Writes: 1, Stand: about.stand,
		Before: s.Replicas[here], After: s.Replicas[(here+n/2)%2],
	}
	if about.stand == written {
		ofA.Writes = 2
	}
	ofB := order{Account: account, Way: way, Writes: 1, Before: s.Replicas[there]}

	pausedProcess := s.a
	if about.stand == admitted {
		pausedProcess = s.replicas[here]
	}
	var a, b, half event
	var began time.Duration
	require.NoError(t, subprocess.Round{
		Pause: func(ctx context.Context) (err error) {
			if err = s.a.Send(ofA); err == nil {
				err = pausedProcess.Stands(ctx)
			}
			if err == nil && about.stand == halfway {
				half, err = s.replicas[here].Next(ctx)
			}
			return err
		},
		Act: func(ctx context.Context) (err error) {
			began = s.now()
			b, err = s.b.Ask(ctx, ofB)
			return err
		},
		Resume: func(ctx context.Context) (err error) {
			if err = pausedProcess.Continue(); err == nil {
				a, err = s.a.Next(ctx)
			}
			return err
		},
	}.Run(t.Context(), stepTimeout))

	require.Equal(t, about.stand == halfway, half.Halfway)
	requireAccepted(t, b.Ops)
	for _, op := range a.Ops {
		if op.Kind == history.Write && op.Ended > began {
			late = op.Outcome
		}
	}
	return append(a.Ops, b.Ops...), late, s.look(t.Context(), t, s.pool, account)
}

// requireAccepted requires that B's unit succeeded while A was stopped.
func requireAccepted(t *testing.T, b []history.Op) {
	t.Helper()
	require.Len(t, b, 2)
	for _, op := range b {
		require.Equal(t, history.Accepted, op.Outcome, "%+v", op)
	}
}

// figures are the counts of the rounds of one story in one way.
type figures struct {
	rounds    int
	late      map[history.Outcome]int // of A's write after B's
	falls     int                     // rounds in which applied numbers fell, by the ledger
	corrupted int                     // rounds in which the resource broke its rules
	broken    []history.Violation
	took      time.Duration
}

// String returns a line of a table.
func (f figures) String() string {
	return fmt.Sprintf("%4d rounds, late writes: %4d accepted, %4d refused, %4d unknown; %4d rounds corrupted, %5.1f s",
		f.rounds, f.late[history.Accepted], f.late[history.Refused], f.late[history.Unknown], f.corrupted, f.took.Seconds())
}

// run plays and judges the rounds.
func (s *stage) run(t *testing.T, way string, about story, rounds int) figures {
	t.Helper()
	began := time.Now()
	f := figures{rounds: rounds, late: map[history.Outcome]int{}}
	var h history.History
	first := s.open(t, rounds)
	for n := range rounds {
		ops, late, p := s.round(t, way, about, first+n)
		f.late[late]++
		if p.falls > 0 {
			f.falls++
		}
		h.Ops = append(h.Ops, s.trace(ops, p)...)
	}
	var err error
	f.broken, err = history.Check(h)
	require.NoError(t, err)
	corrupted := map[string]bool{}
	for _, v := range f.broken {
		corrupted[v.Resource] = true
	}
	f.corrupted, f.took = len(corrupted), time.Since(began)
	t.Logf("%-50s %-10s %s", about, way, f)
	return f
}

// trace adds the ledger's facts to the callers' ops. Each write is a unit of its own.
func (s *stage) trace(ops []history.Op, p page) (all []history.Op) {
	for _, op := range ops {
		if op.Kind == history.Write {
			op.Traced, op.Counted = true, p.times[op.Writer]
			unit := op
			unit.Kind = history.Unit
			all = append(all, unit)
		}
		all = append(all, op)
	}
	return append(all, history.Op{
		Kind: history.Read, Writer: "test", Resource: ops[0].Resource, Outcome: history.Accepted,
		Began: s.now(), Ended: s.now(), Counted: p.balance,
	})
}

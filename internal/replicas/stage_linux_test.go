package replicas_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
	"github.com/fencepost/fencepost/internal/testenv"
)

// patience bounds one step of a round.
const patience = time.Minute

var errPatience = errors.New("nothing happened for a minute")

type peer = *child.Process[event]

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
	for n := range s.replicas {
		s.replicas[n] = s.start(t, "replica", strconv.Itoa(n+1))
		s.Replicas = append(s.Replicas, s.next(t, s.replicas[n]).Address)
	}
	s.a, s.b = s.start(t, "caller", "A"), s.start(t, "caller", "B")
	return s
}

// start starts a process and gives it the setup. It is ended before the servers
// are taken away, stopped or not.
func (s *stage) start(t *testing.T, role, name string) peer {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := child.Start[event](child.Command{
		Name: role + " " + name, Argv: []string{self}, Env: []string{envRole + "=" + role},
	})
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

func (s *stage) next(t *testing.T, p peer) event {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	defer cancel()
	e, err := p.Next(ctx)
	require.NoError(t, err)
	return e
}

// open opens n accounts, one for each round, and returns the first.
func (s *stage) open(t *testing.T, n int) (first int) {
	t.Helper()
	first = s.accounts + 1
	s.accounts += n
	_, err := s.pool.Exec(t.Context(), s.opens, first, s.accounts)
	require.NoError(t, err)
	return first
}

package failures_test

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

const resource = "account/42"

// store is the resource that is written to. It outlives the issuer's servers.
type store struct {
	guarded  bool
	recorder *history.Recorder

	mu     sync.Mutex
	marks  guard.Memory
	writes []write // as they were applied
}

// write is one that was accepted.
type write struct {
	tok token.Token
	at  time.Time
}

// claim is asked before the work.
func (s *store) claim(ctx context.Context, tok token.Token) error {
	return s.do(ctx, history.Claim, tok, func() {})
}

func (s *store) write(ctx context.Context, tok token.Token) error {
	return s.do(ctx, history.Write, tok, func() { s.writes = append(s.writes, write{tok, time.Now()}) })
}

func (s *store) do(ctx context.Context, kind history.Kind, tok token.Token, apply func()) error {
	op := s.recorder.Begin(history.Op{
		Kind: kind, Writer: writer(ctx), Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.guarded {
		err = s.marks.Admit(ctx, tok)
	}
	if err == nil {
		apply()
	}
	outcome := simulations.Outcome(err)
	if ctx.Err() != nil && outcome == history.Unknown {
		outcome = history.Failed // the guard refused who had given up
	}
	op.End(outcome, nil)
	return err
}

func (s *store) all() []write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[:len(s.writes):len(s.writes)]
}

// writerKey is the context's key for who asks, in the history's words.
type writerKey struct{}

func writer(ctx context.Context) string {
	name, _ := ctx.Value(writerKey{}).(string)
	return name
}

package failures_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// round is one life of a resource, through one failure.
type round struct {
	*testing.T
	store
	grants grants
	healed time.Duration // from the return of the servers to a new holder's write
}

func newRound(t *testing.T, guarded bool) *round {
	t.Helper()
	return &round{T: t, store: store{guarded: guarded, recorder: history.NewRecorder()}}
}

// play ends when life goes on after the failure.
func (r *round) play(s system, ahead bool) {
	r.Helper()
	paused, back := r.playToTheFailure(s, ahead)
	r.healed = r.next(paused, back)
	late := r.write(r.as("paused"), paused)
	if r.guarded {
		require.Error(r, late, "a holder that was paused wrote after its successor")
	} else {
		require.NoError(r, late)
	}
	r.turns(2)
}

// playToTheFailure leaves one holder paused, and the servers back.
func (r *round) playToTheFailure(s system, ahead bool) (paused token.Token, back time.Time) {
	r.Helper()
	if ahead {
		r.advance(s.issuer(r.T))
	}
	r.start(s)
	r.turns(3)
	if s.depart != nil {
		s.depart()
		r.turns(2)
	}
	paused = r.pause(s.issuer(r.T))
	fault := r.recorder.Begin(history.Op{Kind: history.Fault, Writer: "the servers", Resource: resource})
	s.fail()
	fault.End(history.Accepted, nil)
	return paused, time.Now()
}

// start sets the lockers to work, until the end of the test.
func (r *round) start(s system) {
	r.Helper()
	ctx, stop := context.WithCancel(r.Context())
	var working sync.WaitGroup
	for _, name := range []string{"A", "B", "C"} {
		iss := s.issuer(r.T)
		working.Go(func() { r.work(context.WithValue(ctx, writerKey{}, name), iss) })
	}
	r.Cleanup(func() { stop(); working.Wait() })
}

// advance makes the issuer give the numbers of a clock that is ahead.
func (r *round) advance(iss token.Issuer) {
	r.Helper()
	if hidden, ok := iss.(*forgetful); ok {
		iss = hidden.Issuer
	}
	raiser, ok := iss.(token.Raiser)
	require.True(r, ok, "%T cannot be raised", iss)
	hour := int64(time.Hour / (10 * time.Microsecond))
	ahead := hour/2 + rand.N(hour/2)
	require.NoError(r, raiser.Raise(r.Context(), resource, time.Now().UnixMicro()/10+ahead))
}

// as is the context of a writer.
func (r *round) as(name string) context.Context {
	return context.WithValue(r.Context(), writerKey{}, name)
}

package simulations

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// moves bounds a random interleaving.
const moves = 100

// shuffle is a random interleaving under way: at each move somebody is drawn,
// and what becomes of it. Everybody is stopped at every step.
type shuffle struct {
	*stage
	draw  *rand.Rand
	pace  pace
	cast  []*writer // nil where it has not begun
	state []state
}

// shuffle performs the random interleaving of seed.
func (x *explorer) shuffle(ctx context.Context, seed uint64) error {
	st, err := newStage(ctx, x.subject, x.twin)
	if err != nil {
		return err
	}
	x.moves(st, seed)
	return named(st.judge(), fmt.Sprintf("random/seed_%d", seed))
}

// moves makes those that seed draws.
func (x *explorer) moves(st *stage, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 0))
	n := 2 + draw.IntN(3)
	s := &shuffle{
		stage: st, draw: draw, cast: make([]*writer, n), state: make([]state, n),
		pace: pace{normal: x.normal, isBlocked: true},
	}
	for range moves {
		s.move(draw.IntN(n))
	}
}

func (s *shuffle) move(i int) {
	w := s.cast[i]
	if w == nil {
		w = s.start(string(rune('A'+i)), everywhere)
		w.mute.Store(s.draw.IntN(10) == 0)
		s.cast[i], s.state[i] = w, w.await(s.pace.bound())
		return
	}
	fate := s.draw.IntN(100)
	if s.state[i] != parked && s.state[i] != ended {
		s.state[i] = w.await(0)
	}
	switch {
	case s.state[i] != parked:
	case fate < 8:
		s.lose(w)
	case fate < 11:
		if s.draw.IntN(8) > 0 || s.subject.TTL > time.Second { // or everybody waits until its lease has run out
			s.lose(w)
		}
		s.crash(w)
		s.state[i] = w.await(s.pace.bound())
	default:
		s.step(i)
	}
}

// step wakes a writer for one step. One that is to ask for a lock that another
// has would only wait for it: more often than not the other loses it first.
func (s *shuffle) step(i int) {
	w := s.cast[i]
	if w.tok.Load() == nil {
		for j, other := range s.cast {
			if j != i && other != nil && other.tok.Load() != nil && !other.lost.Load() && s.draw.IntN(10) > 0 {
				s.lose(other)
			}
		}
	}
	if w.gone.Load() && s.draw.IntN(4) == 0 {
		s.insist(w)
	}
	w.wake(everywhere)
	s.state[i] = w.await(s.pace.bound())
}

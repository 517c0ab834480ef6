package lockset

import (
	"context"
	"math/rand/v2"
	"time"
)

// pauses stop members of a crew, at random.
type pauses struct {
	crew   *crew
	every  time.Duration
	ttl    time.Duration
	random *rand.Rand

	count, longer int
	paused        time.Duration
}

// until goes on until ctx ends. Nobody stands then.
func (p *pauses) until(ctx context.Context) error {
	for {
		if sleep(ctx, p.some()) != nil {
			return nil
		}
		if err := p.pause(ctx); err != nil {
			return err
		}
	}
}

// some is between 0 and twice the mean.
func (p *pauses) some() time.Duration { return time.Duration(p.random.Int64N(int64(2 * p.every))) }

// pause stops a random part of the crew, one at least, for some time.
func (p *pauses) pause(ctx context.Context) error {
	members := p.crew.members
	chosen := p.random.Perm(len(members))[:1+p.random.IntN(len(members))]
	length := p.some()
	for _, i := range chosen {
		if err := members[i].Stop(); err != nil {
			return err
		}
	}
	for _, i := range chosen {
		if err := members[i].Stands(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	began := time.Now()
	_ = sleep(ctx, length) // cut short at the end of the run
	took := time.Since(began)
	for _, i := range chosen {
		if err := members[i].Continue(); err != nil {
			return err
		}
	}
	p.count++
	p.paused += took
	if took > p.ttl {
		p.longer++
	}
	return nil
}

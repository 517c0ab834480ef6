package renew

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
)

const lateness = "lateness"

// answers are the moments at which renewals were answered.
type answers struct {
	at            []float64 // in ms since start
	start         time.Time
	begun, noted  atomic.Int64
	everyoneNoted chan struct{}
}

// note takes one of each lease: what comes later is its next renewal.
func (a *answers) note() {
	i := a.begun.Add(1) - 1
	if i >= int64(len(a.at)) {
		return
	}
	a.at[i] = float64(time.Since(a.start).Microseconds()) / 1e3
	if a.noted.Add(1) == int64(len(a.at)) {
		close(a.everyoneNoted)
	}
}

// late has all leases fall due at once, and reads off how late they are renewed, in
// milliseconds.
func (g *Group) late(of newKeeper) measure.Run {
	return func(ctx context.Context, _ time.Duration) (measure.Reading, error) {
		a := &answers{at: make([]float64, g.Leases), start: time.Now(), everyoneNoted: make(chan struct{})}
		gate := newGate(g.issuer, g.Leases)
		k := of(gate, g, a.note)
		kept := make(chan error, g.Leases)
		for lease := range g.Leases {
			go func() { kept <- k.keep(context.WithoutCancel(ctx), lease) }()
		}
		due, until := gate.open()
		var err error
		for range g.Leases {
			err = errors.Join(err, <-kept)
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-a.everyoneNoted:
		case <-time.After(time.Until(until)):
			return nil, errors.New("not all were renewed in time")
		}
		late := measure.Quantile(slices.Sorted(slices.Values(a.at)), 0.99) - float64(due.Sub(a.start).Microseconds())/1e3
		return measure.Reading{measure.Operations: float64(g.Leases), lateness: late}, g.release(ctx, k)
	}
}

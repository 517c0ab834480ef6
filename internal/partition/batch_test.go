package partition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// batch plays rounds at the same time, each with a resource, a holder and a
// partition of its own, and answers their leads.
func batch(t *testing.T, s site, hold holding, n int) (leads []time.Duration) {
	t.Helper()
	t.Run("rounds", func(t *testing.T) {
		near, played := s.near(t), make(chan *round)
		for i := range n {
			r := &round{resource: fmt.Sprintf("round/%d", i), fault: s.faults[i%len(s.faults)], near: near, hold: hold}
			r.far, r.proxies = s.far(t)
			if i/len(s.faults)%2 == 1 {
				r.proxies = r.proxies[:len(r.proxies)/2+1] // a majority will do
			}
			go func() {
				r.lead, r.err = r.play(t.Context())
				played <- r
			}()
		}
		var errs []error
		for range n {
			r := <-played
			leads = append(leads, r.lead)
			if r.err != nil {
				errs = append(errs, fmt.Errorf("%s, where %s: %w", r.resource, r.fault.name, r.err))
			}
		}
		require.Empty(t, errs)
	})
	return leads
}

func tooLate(leads []time.Duration) (n int) {
	for _, lead := range leads {
		if lead < 0 {
			n++
		}
	}
	return n
}

func summary(t *testing.T, leads []time.Duration) string {
	t.Helper()
	sorted := slices.Sorted(slices.Values(leads))
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	_, name, _ := strings.Cut(t.Name(), "/")
	if n := tooLate(leads); n > 0 {
		return fmt.Sprintf("%s: too late in %d rounds of %d, by %v at the median and %v at most",
			name, n, len(leads), -round(sorted[n/2]), -round(sorted[0]))
	}
	return fmt.Sprintf("%s: in time in all %d rounds, by %v at the median and %v at least",
		name, len(leads), round(sorted[len(leads)/2]), round(sorted[0]))
}

package process

import (
	"context"
	"fmt"
	"slices"
)

// await returns the next event of that kind, and keeps others for later.
func (p *peer) await(ctx context.Context, want ...kind) (event, error) {
	for n := 0; ; n++ {
		if n == len(p.heard) {
			e, err := p.Next(ctx)
			if err != nil {
				return e, err
			}
			p.heard = append(p.heard, e)
		}
		e := p.heard[n]
		if e.Kind == failed {
			return e, fmt.Errorf("process: writer %s: %s", p.name, e.Text)
		}
		if slices.Contains(want, e.Kind) {
			p.heard = slices.Delete(p.heard, n, n+1)
			return e, nil
		}
	}
}

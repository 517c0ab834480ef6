package measure

import (
	"context"
	"fmt"
)

// round is what each side's blocks of one round cost.
type round struct{ plain, ours float64 }

func (r round) ratio() float64 { return r.ours / r.plain }

// round runs the blocks of round n. Two of each, in an order that favours
// neither when the machine becomes steadily slower or faster.
func (f Figure) round(ctx context.Context, n int) (r round, err error) {
	for _, ours := range []bool{false, true, true, false} {
		ours = ours != (n%2 == 1)
		cost, err := f.side(ctx, ours)
		if err != nil {
			return r, err
		}
		if ours {
			r.ours += cost
		} else {
			r.plain += cost
		}
	}
	if r.plain <= 0 {
		return r, fmt.Errorf("%s: it cost nothing, which nothing can be compared with", f.Baseline)
	}
	return r, nil
}

// side runs a block of one side, and says which in an error.
func (f Figure) side(ctx context.Context, ours bool) (cost float64, err error) {
	name, op := f.Baseline, f.Plain
	if ours {
		name, op = f.Name, f.Ours
	}
	if cost, err = f.block(ctx, op); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return cost, nil
}

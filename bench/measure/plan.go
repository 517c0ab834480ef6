package measure

import (
	"context"
	"fmt"
	"time"
)

// fewest rounds have quartiles at all.
const fewest = 3

// Plan is how long a group is measured.
type Plan struct {
	// Budget is shared by the measurements of the group evenly. What one cannot
	// spend is left to those behind it. A figure has three rounds even where
	// there is no time for them.
	Budget time.Duration
}

// Run measures all in their order, and gives each row to show as soon as it is
// there. It ends at the first error, which says what failed.
func (p Plan) Run(ctx context.Context, group string, all []Measurement, show func(Row) error) error {
	end := time.Now().Add(p.Budget)
	for i, m := range all {
		share := time.Until(end) / time.Duration(len(all)-i)
		rows, err := m.measure(ctx, time.Now().Add(share))
		if err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
		for _, row := range rows {
			row.Group = group
			if err := show(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rows implements [Measurement].
func (f Figure) Rows() []Row { return []Row{{Name: f.Name, Baseline: f.Baseline}} }

func (f Figure) measure(ctx context.Context, end time.Time) ([]Row, error) {
	if f.Setup != nil {
		if err := f.Setup(ctx); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", f.Name, err)
		}
	}
	// Connections, prepared statements, caches.
	for _, ours := range []bool{false, true} {
		if _, err := f.side(ctx, ours); err != nil {
			return nil, err
		}
	}
	var rounds []round
	for len(rounds) < fewest || time.Now().Before(end) {
		r, err := f.round(ctx, len(rounds))
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, r)
	}
	return []Row{f.row(rounds)}, nil
}

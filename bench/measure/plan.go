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
	// Budget is shared by the figures of the group evenly. What one cannot
	// spend is left to those behind it. A figure has three rounds even where
	// there is no time for them.
	Budget time.Duration
}

// Run measures figures in their order, and gives each row to show as soon as it
// is there. It ends at the first error, which says what failed.
func (p Plan) Run(ctx context.Context, group string, figures []Figure, show func(Row) error) error {
	end := time.Now().Add(p.Budget)
	for i, f := range figures {
		share := time.Until(end) / time.Duration(len(figures)-i)
		row, err := f.measure(ctx, time.Now().Add(share))
		if err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
		row.Group = group
		if err := show(row); err != nil {
			return err
		}
	}
	return nil
}

func (f Figure) measure(ctx context.Context, end time.Time) (Row, error) {
	if f.Setup != nil {
		if err := f.Setup(ctx); err != nil {
			return Row{}, fmt.Errorf("prepare %s: %w", f.Name, err)
		}
	}
	// Connections, prepared statements, caches.
	for _, ours := range []bool{false, true} {
		if _, err := f.side(ctx, ours); err != nil {
			return Row{}, err
		}
	}
	var rounds []round
	for len(rounds) < fewest || time.Now().Before(end) {
		r, err := f.round(ctx, len(rounds))
		if err != nil {
			return Row{}, err
		}
		rounds = append(rounds, r)
	}
	return f.row(rounds), nil
}

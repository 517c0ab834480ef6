package measure

import (
	"context"
	"fmt"
	"time"
)

// Trial is what takes seconds and not operations: several sides that have their
// turn in each round, and the ratios that are read off the same blocks.
type Trial struct {
	// Name says in errors which trial it is.
	Name   string
	Sides  []Side
	Ratios []Ratio
	// Shortest is how long a block lasts at least: each side has one a round.
	Shortest time.Duration
	// Longest is how long one lasts where there is time for five rounds of
	// such. 0 means that all last as long as the shortest.
	Longest time.Duration
	// Rounds is how many there are even where there is no time for them; 0
	// means three.
	Rounds int
	// WarmUp is how long each side runs before anything is counted.
	WarmUp time.Duration
}

// Side is one of those that are compared.
type Side struct {
	Name string
	Run  Run
}

// Run works for d, and for what it takes to begin and to end, and returns what it
// read off while it did.
type Run func(ctx context.Context, d time.Duration) (Reading, error)

// Reading is what was read off a block, by the names of the quantities.
type Reading map[string]float64

// Operations is the quantity that a row shows as the number of operations.
const Operations = "operations"

// Ratio is what is read off two sides: a quantity of the one, divided by one of
// the other.
type Ratio struct {
	// Name says what ours is, and Baseline what it is compared with.
	Name, Baseline string
	Of, Over       Value // Over nothing, the quantity itself is shown
	// Target is the highest that is good enough, or with AtLeast the lowest. 0
	// means that there is none.
	Target  float64
	AtLeast bool
}

// Value is a quantity of a side.
type Value struct{ Side, Quantity string }

// Rows implements [Measurement].
func (t Trial) Rows() []Row {
	var rows []Row
	for _, r := range t.Ratios {
		rows = append(rows, Row{Name: r.Name, Baseline: r.Baseline, AtLeast: r.AtLeast})
	}
	return rows
}

func (t Trial) measure(ctx context.Context, end time.Time) ([]Row, error) {
	if t.WarmUp > 0 {
		if _, err := t.round(ctx, 0, t.WarmUp); err != nil {
			return nil, err
		}
	}
	block := t.block(time.Until(end))
	var rounds []passed
	var took time.Duration
	for len(rounds) < t.fewest() || time.Until(end) >= took {
		start := time.Now()
		r, err := t.round(ctx, len(rounds), block)
		if err != nil {
			return nil, err
		}
		took = time.Since(start)
		rounds = append(rounds, r)
	}
	return t.rows(rounds)
}

func (t Trial) fewest() int {
	if t.Rounds == 0 {
		return fewest
	}
	return t.Rounds
}

// block is how long each is, when there is so much time for all.
func (t Trial) block(left time.Duration) time.Duration {
	return max(t.Shortest, min(t.Longest, left/time.Duration(5*len(t.Sides))))
}

// passed is what the sides of one round read, by their names.
type passed map[string]Reading

// round runs each side once, every other time from the last to the first: none
// always comes after the same one.
func (t Trial) round(ctx context.Context, n int, block time.Duration) (passed, error) {
	all := passed{}
	for i := range t.Sides {
		if n%2 == 1 {
			i = len(t.Sides) - 1 - i
		}
		side := t.Sides[i]
		r, err := side.Run(ctx, block)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", t.Name, side.Name, err)
		}
		all[side.Name] = r
	}
	return all, nil
}

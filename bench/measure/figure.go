package measure

import "context"

// Op is one operation. Worker is the number of the goroutine that runs it, from
// 0; no two have the same at once.
type Op func(ctx context.Context, worker int) error

// Figure is one ratio to be measured: what Ours costs beside Plain.
type Figure struct {
	// Name says what ours is, and Baseline what plain is.
	Name, Baseline string
	Plain, Ours    Op
	// Workers is how many goroutines run each side's blocks; 0 means one.
	Workers int
	// Size is how many operations of each worker are a block; 0 means sixteen:
	// few enough that the machine treats both sides alike, enough that each
	// finds its own caches warm.
	Size int
	// Cost is what is compared. Nil means time.
	Cost Cost
	// Target is the highest ratio that is good enough. 0 means that there is
	// none, and the ratio is only reported.
	Target float64
	// Extra, where it is not 0, makes the target what the baseline turns out
	// to cost and Extra more, for each operation in the unit of Cost.
	Extra float64
	// Context, where it is not nil, makes the context that a worker's operations
	// of a block have, of either side. What that takes is not measured.
	Context func(ctx context.Context, worker int) context.Context
	// Setup runs once, before all operations; nil does nothing.
	Setup func(ctx context.Context) error
}

// AA is the baseline against itself, measured as f is: the noise of f.
func (f Figure) AA(name string) Figure {
	f.Name, f.Ours, f.Target, f.Extra = name, f.Plain, 0, 0
	return f
}

func (f Figure) workers() int { return max(f.Workers, 1) }

func (f Figure) size() int {
	if f.Size == 0 {
		return 16
	}
	return f.Size
}

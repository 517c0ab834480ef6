package measure

import (
	"context"
	"time"
)

// Measurement is what a [Plan] runs: a [Figure], or a [Trial].
type Measurement interface {
	// Rows are those that it will have, without what is not known yet.
	Rows() []Row

	measure(ctx context.Context, end time.Time) ([]Row, error)
}

// All are figures or trials, each a measurement.
func All[M Measurement](of []M) []Measurement {
	var all []Measurement
	for _, m := range of {
		all = append(all, m)
	}
	return all
}

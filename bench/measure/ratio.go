package measure

import (
	"fmt"
	"math"
	"slices"
)

// rows reads off what the trial is for.
func (t Trial) rows(rounds []passed) ([]Row, error) {
	var rows []Row
	for _, r := range t.Ratios {
		var ratios []float64
		var operations float64
		for _, all := range rounds {
			ratio, err := r.in(all)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", t.Name, r.Name, err)
			}
			ratios = append(ratios, ratio)
			operations += all[r.Of.Side][Operations]
		}
		slices.Sort(ratios)
		row := spread(ratios)
		row.Name, row.Baseline, row.Operations = r.Name, r.Baseline, int(operations)
		rows = append(rows, row.judged(r.Target, r.AtLeast))
	}
	return rows, nil
}

// in is the ratio of one round.
func (r Ratio) in(all passed) (float64, error) {
	of, err := r.Of.in(all)
	if err != nil || r.Over == (Value{}) {
		return of, err
	}
	over, err := r.Over.in(all)
	if err == nil && over <= 0 {
		err = fmt.Errorf("%s: %s is nothing, which nothing can be compared with", r.Over.Side, r.Over.Quantity)
	}
	return of / over, err
}

// in is the value of one round, which the side must have read.
func (v Value) in(all passed) (float64, error) {
	value, ok := all[v.Side][v.Quantity]
	if !ok || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%s: there was no %s", v.Side, v.Quantity)
	}
	return value, nil
}

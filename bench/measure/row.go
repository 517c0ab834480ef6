package measure

import (
	"math"
	"slices"
)

// Row is a figure that was measured. As JSON it is one object, with null for
// the target that a figure does not have:
//
//	{"group":"write","name":"Table.Update","baseline":"plain UPDATE","ratio":1.01,"q1":0.99,"q3":1.03,"target":1.03,"met":true}
type Row struct {
	Group    string   `json:"group"`
	Name     string   `json:"name"`
	Baseline string   `json:"baseline"`
	Ratio    float64  `json:"ratio"`              // the median over the rounds
	Q1       float64  `json:"q1"`                 // a quarter of the rounds lay below
	Q3       float64  `json:"q3"`                 // a quarter lay above
	Target   *float64 `json:"target"`             // nil: reported only
	AtLeast  bool     `json:"at_least,omitempty"` // the target is the lowest, not the highest
	Met      *bool    `json:"met"`                // nil: reported only

	// Operations is how many of each side were counted.
	Operations int `json:"-"`
}

// row needs one round at least.
func (f Figure) row(rounds []round) Row {
	var ratios, plain []float64
	for _, r := range rounds {
		ratios, plain = append(ratios, r.ratio()), append(plain, r.plain/2)
	}
	slices.Sort(ratios)
	slices.Sort(plain)
	row := spread(ratios)
	row.Name, row.Baseline = f.Name, f.Baseline
	row.Operations = 2 * f.size() * f.workers() * len(rounds)
	target := f.Target
	if f.Extra != 0 {
		target = 1 + f.Extra/Quantile(plain, 0.5)
	}
	return row.judged(target, false)
}

// spread is the row of ratios, which are sorted.
func spread(ratios []float64) Row {
	return Row{
		Ratio: shown(Quantile(ratios, 0.5)), Q1: shown(Quantile(ratios, 0.25)), Q3: shown(Quantile(ratios, 0.75)),
	}
}

// judged is the row with its target, unless that is 0.
func (r Row) judged(target float64, atLeast bool) Row {
	r.AtLeast = atLeast
	if target != 0 {
		target = shown(target)
		met := r.Ratio <= target
		if atLeast {
			met = r.Ratio >= target
		}
		r.Target, r.Met = &target, &met
	}
	return r
}

// shown rounds to what is printed, so that whether a target is met can be seen.
func shown(ratio float64) float64 { return math.Round(ratio*1000) / 1000 }

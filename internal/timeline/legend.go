package timeline

import (
	"slices"

	"github.com/fencepost/fencepost/internal/history"
)

// sign is an entry of the legend.
type sign struct {
	words string
	wide  float64 // of the drawing
	in    func(*figure) bool
	draw  func(c *canvas) // around the middle of its left side
}

// one returns a function that reports whether a figure has an op of that kind and
// outcome.
func one(kind history.Kind, outcome history.Outcome) func(*figure) bool {
	return func(f *figure) bool {
		return slices.ContainsFunc(f.shown, func(op *history.Op) bool {
			as := op.Kind
			switch {
			case f.bare[op]:
				as = history.Write
			case op.Kind == history.Renew:
				as = history.Acquire
			}
			return as == kind && op.Outcome == outcome
		})
	}
}

func shape(kind history.Kind, outcome history.Outcome) func(*canvas) {
	return func(c *canvas) { c.glyph(kind, outcome, 8, 0) }
}

var signs = []sign{
	{"lease, with its token", 28, func(f *figure) bool { return len(f.held) > 0 }, func(c *canvas) {
		c.rect("lease", 0, -6, 26, 12)
		c.line("edge", 0, -6, 0, 6)
		c.line("edge", 26, -6, 26, 6)
	}},
	{"paused, or another fault", 28, func(f *figure) bool { return one(history.Fault, history.Accepted)(f) }, func(c *canvas) { c.hatch(0, 0, 28, 13) }},
	{"claim accepted", 16, one(history.Claim, history.Accepted), shape(history.Claim, history.Accepted)},
	{"claim refused", 16, one(history.Claim, history.Refused), shape(history.Claim, history.Refused)},
	{"claim: outcome unknown", 16, one(history.Claim, history.Unknown), shape(history.Claim, history.Unknown)},
	{"write accepted", 16, one(history.Write, history.Accepted), shape(history.Write, history.Accepted)},
	{"write refused", 16, one(history.Write, history.Refused), shape(history.Write, history.Refused)},
	{"write: outcome unknown", 16, one(history.Write, history.Unknown), shape(history.Write, history.Unknown)},
	{"write failed, nothing applied", 16, one(history.Write, history.Failed), shape(history.Write, history.Failed)},
	{"the lock refuses", 16, one(history.Acquire, history.Refused), shape(history.Acquire, history.Refused)},
	{"no answer from the lock", 16, one(history.Acquire, history.Unknown), shape(history.Acquire, history.Unknown)},
	{"state observed", 16, func(f *figure) bool { return f.fence.looks || one(history.Mark, history.Accepted)(f) }, shape(history.Read, history.Accepted)},
	{"a unit of work", 22, func(f *figure) bool {
		return slices.ContainsFunc(f.shown, func(op *history.Op) bool { return op.Kind == history.Unit && !f.bare[op] })
	}, func(c *canvas) { c.line("unit", 0, 0, 22, 0) }},
	{"the mark: the number last accepted. What is below it is stale", 28, func(f *figure) bool { return len(f.fence.steps) > 0 }, func(c *canvas) { c.add(`<path class="mark" d="M0 5h12v-10h14"/>`) }},
	{"the mark falls", 22, func(f *figure) bool {
		return slices.ContainsFunc(f.fence.steps, func(s step) bool { return s.fell })
	}, func(c *canvas) { c.add(`<path class="fall" d="M8 -7v14"/>`) }},
	{"time left out", 16, func(f *figure) bool { return len(f.scale.breaks) > 0 }, func(c *canvas) { c.add(`<path class="axis" d="M3 5l4 -10m5 0l-4 10"/>`) }},
}

// legend returns the signs that at least one of the figures uses.
func legend(figures []*figure) []sign {
	return slices.DeleteFunc(slices.Clone(signs), func(s sign) bool { return !slices.ContainsFunc(figures, s.in) })
}

// legendList returns the legend of a page.
func legendList(signs []sign) string {
	c := &canvas{}
	c.add(`<ul class="legend">`)
	for _, s := range signs {
		c.add(`<li><svg class="pic" width="%v" height="16" viewBox="-1 -8 %v 16" aria-hidden="true"><g class="h0">`, s.wide+2, s.wide+2)
		s.draw(c)
		c.add("</g></svg>%s</li>", escaped(s.words))
	}
	c.add("</ul>\n")
	return c.String()
}

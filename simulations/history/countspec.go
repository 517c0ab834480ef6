package history

import "github.com/anishathalye/porcupine"

// counter is how many units the resource remembers, and how many more it may
// remember yet, because nobody knows what became of them.
type counter struct{ units, open int }

// countSpec is the specification of counting: units and reads. An unknown unit
// is asked at the instant at which it began, and applied by the read that first
// counts it.
func countSpec(s *story) specification {
	spec := specification{model: porcupine.NondeterministicModel{
		Init: func() []any { return []any{counter{}} },
		Step: func(state, input, _ any) []any {
			return state.(counter).step(input.(question).op)
		},
	}}
	for _, op := range s.units {
		if op.Outcome == Unknown {
			spec.ask(question{op: op}, op.Began)
		} else {
			spec.ask(question{op: op}, op.Ended)
		}
	}
	for _, op := range s.reads {
		spec.ask(question{op: op}, op.Ended)
	}
	return spec
}

func (c counter) step(op *Op) []any {
	switch {
	case op.Kind == Read:
		more := op.Counted - c.units
		if more < 0 || more > c.open {
			return nil
		}
		return []any{counter{op.Counted, c.open - more}}
	case op.Traced && !rightly(op):
		return nil
	case op.Outcome == Accepted:
		return []any{counter{c.units + 1, c.open}}
	case op.Outcome == Unknown:
		return []any{counter{c.units, c.open + 1}}
	}
	return []any{c}
}

// rightly says whether a unit is remembered as often as its outcome promises.
func rightly(op *Op) bool {
	switch op.Outcome {
	case Accepted:
		return op.Counted == 1
	case Unknown:
		return op.Counted <= 1
	}
	return op.Counted <= 0
}

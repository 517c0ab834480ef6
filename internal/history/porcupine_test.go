package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// SecondOpinion judges h by another method than [Check], for cross-checking: it searches
// for an order of the ops, within their times, in which one mark, one count and one
// version explain every answer. It returns an error if there is no such order, if the
// timeout passes first or is 0 or less, and if h is malformed. A history without an opinion
// in time has not passed: try a smaller one or a longer timeout.
//
// It takes exponential time in the worst case: an incorrect history with many concurrent
// ops, or one with versions and many Unknown writes. It is meant for some hundred ops of
// a few writers, which take milliseconds. It judges the rules order, holder, once,
// spurious-refusal, mark, versions, and trace for units. It leaves out the rules of the
// lock and of progress, and two kinds of evidence for trace that concern a single write:
// that it was looked for and found although refused, and that its version was read.
func SecondOpinion(h History, timeout time.Duration) error {
	if timeout <= 0 {
		return fmt.Errorf("history: the timeout of a second opinion must be above 0, not %v", timeout)
	}
	if err := h.check(); err != nil {
		return err
	}
	deadline := time.Now().Add(timeout)
	for _, s := range stories(h) {
		s.fill()
		for _, spec := range []specification{countSpec(s), markSpec(s)} {
			left := max(time.Until(deadline), time.Nanosecond)
			switch porcupine.CheckOperationsTimeout(spec.model.ToModel(), spec.ops, left) {
			case porcupine.Ok:
			case porcupine.Illegal:
				return fmt.Errorf("history: %q cannot have answered like this, one question after the other", s.resource)
			default:
				return fmt.Errorf("history: no second opinion of %q in time", s.resource)
			}
		}
	}
	return nil
}

// specification is a model and the ops it has to explain. A resource has two, which share
// nothing: a history of two objects is linearizable if the history of each is (Herlihy
// and Wing, 1990, theorem 1).
type specification struct {
	model porcupine.NondeterministicModel
	ops   []porcupine.Operation
}

// question is an op as the input of a model.
type question struct {
	op     *Op
	causes []*Op // of a refusal: the ops that may have raised the mark before
}

func (s *specification) add(q question, ended time.Duration) {
	s.ops = append(s.ops, porcupine.Operation{Input: q, Call: int64(q.op.Began), Return: int64(ended)})
}

// counter is the state of a counted resource. units is how many units it remembers. open
// is how many more it may remember: units with an unknown outcome.
type counter struct{ units, open int }

// countSpec returns the specification of counting: units and reads. An unknown unit
// becomes open at the instant it began, and is applied by the read that first counts it.
func countSpec(s *story) specification {
	spec := specification{model: porcupine.NondeterministicModel{
		Init: func() []any { return []any{counter{}} },
		Step: func(state, input, _ any) []any {
			return state.(counter).step(input.(question).op)
		},
	}}
	for _, op := range s.units {
		if op.Outcome == Unknown {
			spec.add(question{op: op}, op.Began)
		} else {
			spec.add(question{op: op}, op.Ended)
		}
	}
	for _, op := range s.reads {
		spec.add(question{op: op}, op.Ended)
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

// rightly reports whether a unit is remembered as often as its outcome promises.
func rightly(op *Op) bool {
	switch op.Outcome {
	case Accepted:
		return op.Counted == 1
	case Unknown:
		return op.Counted <= 1
	}
	return op.Counted <= 0
}

// guarded is the state of a guarded resource besides its units.
type guarded struct {
	number  int64
	holder  string
	version int64  // 0 until the first write with a known version
	open    string // unknown writes that may still be applied, one character each
}

// markModel is the model of marks and versions: claims, writes, refused units, and marks
// that are read.
type markModel struct{ unknown []*Op }

func markSpec(s *story) specification {
	m := &markModel{}
	spec := specification{model: porcupine.NondeterministicModel{
		Init: func() []any { return []any{guarded{}} },
		Step: func(state, input, _ any) []any { return m.step(state.(guarded), input.(question)) },
	}}
	told := slices.ContainsFunc(s.accepted, func(op *Op) bool { return op.Made > 0 })
	for _, op := range s.changes {
		switch {
		case op.Outcome == Accepted && op.Kind != Unit:
			spec.add(question{op: op}, op.Ended)
		case op.Outcome == Unknown && op.Kind == Write && told: // else there is nothing to explain
			m.unknown = append(m.unknown, op)
			spec.add(question{op: op}, op.Began)
		}
	}
	possible := raisers(s)
	for _, r := range s.refused {
		begun := filter(possible, func(c *Op) bool { return c.Began <= r.op.Ended })
		spec.add(question{op: r.op, causes: begun}, r.op.Ended)
	}
	for _, op := range s.marks {
		spec.add(question{op: op}, op.Ended)
	}
	return spec
}

func (m *markModel) step(g guarded, q question) []any {
	if q.op.Outcome == Unknown {
		letters := append([]rune(g.open), rune('a'+slices.Index(m.unknown, q.op)))
		slices.Sort(letters)
		g.open = string(letters)
		return []any{g}
	}
	var states []any
	for _, g := range m.late(g) {
		switch {
		case q.op.Outcome == Refused:
			states = append(states, g.refuse(q.op, q.causes)...)
		case q.op.Kind == Write:
			states = append(states, g.write(q.op)...)
		default:
			states = append(states, g.admit(q.op)...)
		}
	}
	return states
}

// late returns g and the states that g can become by unknown writes that are applied now.
func (m *markModel) late(g guarded) []guarded {
	states := []guarded{g}
	for i := 0; i < len(states); i++ {
		for _, letter := range states[i].open {
			op := *m.unknown[letter-'a']
			if op.Made = madeBy(&op); op.Made == 0 && states[i].version > 0 {
				op.Made = states[i].version + 1
			}
			for _, next := range states[i].write(&op) {
				g := next.(guarded)
				g.open = strings.Replace(g.open, string(letter), "", 1)
				if !slices.Contains(states, g) {
					states = append(states, g)
				}
			}
		}
	}
	return states
}

// admit raises the mark to op's token, unless the mark is higher. A mark that was read
// may have been raised by a writer that is not in the history.
func (g guarded) admit(op *Op) []any {
	known := op.Number > 0 || op.Kind == Mark
	if known && op.Number < g.number || op.Number == g.number && strangers(op.Holder, g.holder) {
		return nil
	}
	if op.Number > g.number {
		g.number, g.holder = op.Number, op.Holder
	} else if op.Number == g.number && op.Number > 0 && g.holder == "" {
		g.holder = op.Holder
	}
	return []any{g}
}

// strangers reports whether two names are known and differ.
func strangers(a, b string) bool { return a != b && a != "" && b != "" }

// refuse returns the states in which op may be refused: those in which one of causes has
// put the mark above op. No other op needs to have seen that cause.
func (g guarded) refuse(op *Op, causes []*Op) []any {
	var states []any
	for _, c := range causes {
		switch {
		case !above(c, op):
		case c.Number < g.number:
			states = append(states, g)
		default:
			states = append(states, g.admit(&Op{Kind: Claim, Number: c.Number, Holder: c.Holder})...)
		}
	}
	return states
}

func above(c, op *Op) bool {
	return c.Number > op.Number || c.Number == op.Number && c.Holder != op.Holder
}

// write admits op, and makes its version if it is the next version.
func (g guarded) write(op *Op) []any {
	if op.Made > 0 {
		if op.Seen > 0 && op.Made != op.Seen+1 || g.version > 0 && op.Made != g.version+1 {
			return nil
		}
		g.version = op.Made
	}
	return g.admit(op)
}

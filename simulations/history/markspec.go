package history

import (
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// guarded is what a guarded resource remembers besides its units.
type guarded struct {
	number  int64
	holder  string
	version int64  // 0 until the first write that tells
	open    string // unknown writes that may still be applied, each one character
}

// markModel is the specification of marks and versions: claims, writes, refused
// units, marks that are read.
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
			spec.ask(question{op: op}, op.Ended)
		case op.Outcome == Unknown && op.Kind == Write && told: // else there is nothing to explain
			m.unknown = append(m.unknown, op)
			spec.ask(question{op: op}, op.Began)
		}
	}
	possible := raisers(s)
	for _, r := range s.refused {
		begun := filter(possible, func(c *Op) bool { return c.Began <= r.op.Ended })
		spec.ask(question{op: r.op, causes: begun}, r.op.Ended)
	}
	for _, op := range s.marks {
		spec.ask(question{op: op}, op.Ended)
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

// late returns g, and what it can have become when unknown writes were applied.
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

// admit raises the mark to op's token, if it stands no higher. A mark that was
// read may have been raised by somebody who is not in the history.
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

// strangers says that two names, where both are known, differ.
func strangers(a, b string) bool { return a != b && a != "" && b != "" }

// refuse is right where one of causes, which nobody need have noticed, has put
// the mark above op.
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

// write admits op, and makes its version if that is the next one.
func (g guarded) write(op *Op) []any {
	if op.Made > 0 {
		if op.Seen > 0 && op.Made != op.Seen+1 || g.version > 0 && op.Made != g.version+1 {
			return nil
		}
		g.version = op.Made
	}
	return g.admit(op)
}

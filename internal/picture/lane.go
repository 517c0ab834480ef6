package picture

import (
	"slices"

	"github.com/fencepost/fencepost/simulations/history"
)

// lane is one writer's, or that of somebody else who had faults.
type lane struct {
	name string
	hue  int // -1: it writes nothing
	top  float64
	ops  []int // indexes of shown
}

// middle is the height at which a lane's lease lies.
func (f *figure) middle(l *lane) float64 {
	if f.crowded() {
		return l.top + 13
	}
	return l.top + 32
}

// lanesOf returns the lanes from the top down: those who only had faults, then
// the writers in the order in which they appeared. Who only looked has none.
func lanesOf(ops []*history.Op) []*lane {
	var faulty, writers []*lane
	byName := map[string]*lane{}
	for i, op := range ops {
		l := byName[op.Writer]
		if l == nil {
			l = &lane{name: op.Writer, hue: -1}
			byName[op.Writer] = l
		}
		l.ops = append(l.ops, i)
	}
	for i, op := range ops {
		l := byName[op.Writer]
		if l.ops[0] != i {
			continue
		}
		switch role(ops, l) {
		case "writer":
			l.hue = len(writers) % hues
			writers = append(writers, l)
		case "faulty":
			faulty = append(faulty, l)
		}
	}
	return slices.Concat(faulty, writers)
}

func role(ops []*history.Op, l *lane) string {
	role := "observer"
	for _, i := range l.ops {
		switch ops[i].Kind {
		case history.Fault:
			role = "faulty"
		case history.Read, history.Mark:
		default:
			return "writer"
		}
	}
	return role
}

package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Violation is a broken rule and the shortest history that [Check] found to break it:
// judged alone, with the same limits, Ops break that rule again.
type Violation struct {
	Rule     Rule
	Resource string
	Why      string // how these ops break the rule
	Expected string // the correct outcome; empty if it is not stated
	Ops      []Op   // sorted by Began
}

// violation shows all tries of a unit.
func violation(why string, ops ...*Op) *Violation {
	v := &Violation{Why: why}
	known := map[*Op]bool{nil: true}
	for _, op := range eachTry(ops) {
		if !known[op] {
			known[op] = true
			v.Ops = append(v.Ops, *op)
		}
	}
	slices.SortStableFunc(v.Ops, func(a, b Op) int { return byBegan(&a, &b) })
	return v
}

// String returns the verdict: the rule, what broke it, what was expected, and a
// time line.
func (v Violation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n%s: %s\n", v.Rule.ID, v.Rule.Words, v.Resource, v.Why)
	if v.Expected != "" {
		fmt.Fprintf(&text, "expected: %s\n", v.Expected)
	}
	timeline(&text, v.Ops)
	return text.String()
}

// eachTry returns ops with the tries of a unit in place of the unit.
func eachTry(ops []*Op) []*Op {
	var all []*Op
	for _, op := range ops {
		if op == nil || op.tries == nil {
			all = append(all, op)
		} else {
			all = append(all, op.tries.ops...)
		}
	}
	return all
}

// expect sets Expected.
func (v *Violation) expect(format string, args ...any) *Violation {
	v.Expected = fmt.Sprintf(format, args...)
	return v
}

// nouns are the nouns for requests of some kinds.
var nouns = map[Kind]string{Acquire: "grant", Renew: "renewal"}

// requestOf names op by its writer: "A's write with #33".
func requestOf(op *Op) string { return owned(op, " "+cmp.Or(nouns[op.Kind], string(op.Kind))) }

func owned(op *Op, what string) string {
	text := op.Writer + "'s" + what
	if op.Number > 0 {
		text += fmt.Sprintf(" with #%d", op.Number)
	}
	return text
}

// notBelow returns the correct outcome of op, which met a mark of at least that number.
func notBelow(op *Op, mark int64) string {
	if op.Kind == Mark {
		return fmt.Sprintf("the mark that %s read was #%d and should be at least #%d.", op.Writer, op.Number, mark)
	}
	return fmt.Sprintf("%s should have been refused: the mark was at least #%d.", requestOf(op), mark)
}

// remembered is how often a unit should be remembered.
var remembered = map[Outcome]string{Accepted: "once", Unknown: "once at most"}

// tallied are units, and how many units had been counted before them.
type tallied struct {
	before int
	units  []*Op
}

// tooFew returns what a read should have counted: at least least, and at most the units
// that had begun.
func (s *story) tooFew(read *Op, least int, t tallied) string {
	begun := filter(s.units, func(op *Op) bool { return !undone(op) && op.Began <= read.Ended })
	return fmt.Sprintf("counted %d, should be %s: %s.", read.Counted, limited("at least", least, len(begun)), t)
}

// tooMany returns what a read should have counted: at most most, and at least the units
// that were acknowledged.
func (s *story) tooMany(read *Op, most int, t tallied) string {
	sure := filter(s.units, func(op *Op) bool { return op.Outcome == Accepted && op.Ended < read.Began })
	return fmt.Sprintf("counted %d, should be %s: %s.", read.Counted, limited("at most", most, len(sure)), t)
}

// limited leaves out words if both limits are the same.
func limited(words string, number, other int) string {
	if number == other {
		return fmt.Sprint(number)
	}
	return fmt.Sprint(words, " ", number)
}

// String lists the units of a count.
func (t tallied) String() string {
	text, since := "", ""
	if t.before > 0 {
		text, since = fmt.Sprintf("%d were counted before, and ", t.before), " since then"
	}
	acknowledged := filter(t.units, func(op *Op) bool { return op.Outcome == Accepted })
	text += "acknowledged units" + since + " are " + list(acknowledged)
	if open := filter(t.units, func(op *Op) bool { return op.Outcome == Unknown }); len(open) > 0 {
		text += "; not answered: " + list(open)
	}
	return text
}

// mostListed is how many units a sentence names.
const mostListed = 4

func list(units []*Op) string {
	if len(units) == 0 {
		return "none"
	}
	var names []string
	for _, op := range units[:min(len(units), mostListed)] {
		switch {
		case op.tries == nil:
			names = append(names, owned(op, ""))
		case len(op.tries.ops) == 1:
			names = append(names, owned(op.tries.ops[0], ""))
		default:
			names = append(names, "one, tried as "+list(op.tries.ops))
		}
	}
	if more := len(units) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// shown is how many ops a time line has at most. Ops in the middle are left out.
const shown = 24

// timeline draws ops, which are sorted by Began, in milliseconds since the first.
func timeline(w io.Writer, ops []Op) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, "  "+strings.Join(cells, "\t")) }
	row("   from ms", "     to ms", "who", "what", "token", "outcome")
	for i, op := range ops {
		if left := len(ops) - shown; left > 0 && i >= shown/2 && i < shown/2+left {
			if i == shown/2 {
				row("       ...", "       ...", "", fmt.Sprintf("%d more", left))
			}
			continue
		}
		row(millis(op.Began-ops[0].Began), millis(op.Ended-ops[0].Began),
			op.Writer, cmp.Or(op.Note, string(op.Kind)), who(&op), outcome(&op, ops[0].Began))
	}
	table.Flush()
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%10.3f", float64(d)/float64(time.Millisecond))
}

// who returns the text of op's token.
func who(op *Op) string {
	if op.Number == 0 {
		return cmp.Or(op.Holder, "-")
	}
	return fmt.Sprintf("#%d %s", op.Number, op.Holder)
}

// outcome returns op's outcome, with what it saw or made.
func outcome(op *Op, first time.Duration) string {
	text := string(op.Outcome)
	if op.Kind == Read || op.Traced {
		text += fmt.Sprintf(", counted %d", op.Counted)
	}
	if op.Seen > 0 {
		text += fmt.Sprintf(", read version %d", op.Seen)
	}
	if op.Made > 0 {
		text += fmt.Sprintf(", made version %d", op.Made)
	}
	if op.Until > 0 && op.Outcome == Accepted {
		text += fmt.Sprintf(", until %s", strings.TrimSpace(millis(op.Until-first)))
	}
	return text
}

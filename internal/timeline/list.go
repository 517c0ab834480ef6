package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// list writes the events of the plot as rows, for screens that are too narrow for the
// plot.
func (f *figure) list(c *canvas) {
	c.add("<ol class=\"events\">\n")
	for _, e := range f.events() {
		switch e.kind {
		case breaks:
			f.breakRow(c)
		case rises, falls:
			f.markRow(c, e)
		case over:
			f.eventRow(c, e, "over")
			f.named(c, e.lease.writer, "is past its lease", e.lease.number)
		default:
			f.opRow(c, e)
		}
		c.add("\n")
	}
	c.add("</ol>\n")
}

// eventRow begins a row.
func (f *figure) eventRow(c *canvas, e event, class string) {
	c.add(`<li class="%s"><span>%s</span>`, class, f.millis(e.at))
}

// rowName is how many characters a row gives to a name.
const rowName = 24

// named writes which writer did what with which token.
func (f *figure) named(c *canvas, writer, text string, number int64) {
	c.add("<p><b%s>%s</b> %s", hued(f.hueIn(writer)), escaped(brief(writer, rowName)), escaped(text))
	if number > 0 {
		c.add(" <i%s>%s</i>", hued(f.hueOf(number)), f.numbers.short(number))
	}
	c.add("</p>")
}

// hueIn returns the hue of a writer's lane, or -1 if it has none.
func (f *figure) hueIn(writer string) int {
	if l := f.laneOf[writer]; l != nil {
		return l.hue
	}
	return -1
}

// hued returns the attribute for a hue, or "" for -1.
func hued(hue int) string {
	if hue < 0 {
		return ""
	}
	return fmt.Sprintf(` class="h%d"`, hue)
}

func (f *figure) opRow(c *canvas, e event) {
	op := e.op
	switch {
	case op.Kind == history.Fault:
		f.eventRow(c, e, "pause")
		f.named(c, op.Writer, f.paused(e), op.Number)
		return
	case e.kind == begins:
		f.eventRow(c, e, "begins")
		f.named(c, op.Writer, opText(op), op.Number)
		c.add("<em>begins</em>")
		return
	}
	f.eventRow(c, e, map[bool]string{true: "op bad", false: "op"}[f.isBad(op)])
	c.add(`<svg class="pic%s">`, map[bool]string{true: fmt.Sprintf(" h%d", f.hueIn(op.Writer))}[f.hueIn(op.Writer) >= 0])
	f.ring(c, op, 8, 8)
	c.glyph(op.Kind, op.Outcome, 8, 8)
	c.add("</svg>")
	f.named(c, op.Writer, opText(op), op.Number)
	c.add("<em>%s</em>", became(op))
}

// paused describes a fault: at its beginning until when it lasts, and at its end since
// when it lasted.
func (f *figure) paused(e event) string {
	text := opText(e.op)
	switch {
	case e.kind == begins:
		return text + ", until " + f.millis(e.op.Ended)
	case e.op.Began == e.op.Ended:
		return text
	case f.interrupted(e.op, e.op.Ended):
		return text + ", until here"
	}
	return text + ", since " + f.millis(e.op.Began)
}

func (f *figure) markRow(c *canvas, e event) {
	class, text := "rises", "mark rises to"
	if e.kind == falls {
		class, text = "falls", "mark falls to"
	}
	f.eventRow(c, e, class)
	c.add("<p>%s <i%s>%s</i></p>", text, hued(f.hueOf(e.number)), f.numbers.short(e.number))
}

// breakRow writes the row of the violation, which is the red line of the plot.
func (f *figure) breakRow(c *canvas) {
	c.add(`<li class="breaks"><span>%s</span><p><b>%s</b><br>%s`,
		f.millis(f.callout.at), escaped(f.callout.rule), escaped(f.numbers.in(f.broken.Why)))
	if f.broken.Expected != "" {
		c.add("<br><b>expected:</b> %s", escaped(f.numbers.in(f.broken.Expected)))
	}
	c.add("</p>")
}

// event is a row of the list that a narrow screen shows instead of the plot, at the
// instant that the plot has for it.
type event struct {
	at     time.Duration
	kind   eventKind
	op     *history.Op // if kind is that of an op
	lease  lease       // if a lease ended
	number int64       // the number that the mark rises or falls to
}

// eventKind orders the events of one instant.
type eventKind int

const (
	ends eventKind = iota // an op that is drawn on its lane ended
	lands
	rises
	falls
	moment // an op without a duration, or a unit: it came after ops that ended at the same time
	breaks // the rule is broken
	over   // a lease expired
	begins // an op began, and other ops happened before it ended
)

// events returns the events in order of time. Among ops that arrive at one instant the
// smaller number is first, as on the staircase.
func (f *figure) events() []event {
	var all []event
	for _, op := range f.shown {
		at, kind := op.Ended, ends
		switch {
		case f.lands(op):
			at, kind = f.arrival(op), lands
		case op.Kind == history.Unit || op.Began == op.Ended:
			kind = moment
		}
		all = append(all, event{at: at, kind: kind, op: op})
		if f.interrupted(op, at) {
			all = append(all, event{at: op.Began, kind: begins, op: op})
		}
	}
	for _, s := range f.fence.steps {
		all = append(all, event{at: s.at, kind: map[bool]eventKind{false: rises, true: falls}[s.fell], number: s.number})
	}
	for _, l := range f.held {
		if l.end == expired && l.until <= f.to {
			all = append(all, event{at: l.until, kind: over, lease: l})
		}
	}
	if f.callout.rule != "" {
		all = append(all, event{at: f.callout.at, kind: breaks})
	}
	slices.SortStableFunc(all, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.height(), b.height()))
	})
	return all
}

// height returns the number at which an op arrives.
func (e event) height() int64 {
	if e.kind == lands {
		return e.op.Number
	}
	return 0
}

// interrupted reports whether op has a row for its beginning: another op ended before it
// did. A unit has none, since its writes have rows.
func (f *figure) interrupted(op *history.Op, end time.Duration) bool {
	if op.Kind == history.Unit && !f.bare[op] || op.Began >= end {
		return false
	}
	return slices.ContainsFunc(f.shown, func(other *history.Op) bool {
		return other != op && other.Writer != op.Writer && other.Ended > op.Began && other.Ended < end
	})
}

// opText returns the description of an op in its row, without the token and the outcome.
func opText(op *history.Op) string {
	if op.Note != "" {
		return brief(op.Note, nameLength)
	}
	switch op.Kind {
	case history.Acquire:
		return "acquires"
	case history.Renew:
		return "renews"
	case history.Release:
		return "releases"
	case history.Claim:
		return "claims"
	case history.Write:
		return "writes"
	case history.Unit:
		return "unit of work"
	case history.Read:
		return fmt.Sprintf("counts %d", op.Counted)
	case history.Mark:
		return "reads the mark"
	case history.Fault:
		return "paused"
	}
	return string(op.Kind)
}

// became returns the outcome of an op for its row.
func became(op *history.Op) string {
	switch {
	case op.Kind == history.Fault:
		return ""
	case op.Outcome == history.Accepted && (op.Kind == history.Read || op.Kind == history.Mark):
		return "seen"
	}
	return string(op.Outcome)
}

// nameLength is how many characters a table and a sentence give to a name.
const nameLength = 48

// table returns a table of the shown ops with all recorded fields.
func (f *figure) table() string {
	if len(f.shown) == 0 {
		return ""
	}
	c := &canvas{}
	c.add("<details><summary>%s, with all that was recorded</summary><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>", ops(len(f.shown)))
	for _, head := range []string{"from ms", "to ms", "who", "what", "outcome", "number", "holder", "more"} {
		c.add("<th>%s</th>", head)
	}
	c.add("</tr></thead><tbody>\n")
	for _, op := range f.shown {
		c.add("<tr%s>", map[bool]string{true: ` class="bad"`}[f.isBad(op)])
		for _, cell := range f.row(op) {
			c.add("<td>%s</td>", escaped(cell))
		}
		c.add("</tr>\n")
	}
	c.add("</tbody></table></div></details>\n")
	return c.String()
}

func (f *figure) row(op *history.Op) []string {
	number := ""
	if op.Number > 0 {
		number = strconv.FormatInt(op.Number, 10)
	}
	what := string(op.Kind)
	if op.Note != "" {
		what += ": " + op.Note
	}
	return []string{
		f.exact(op.Began), f.exact(op.Ended), brief(op.Writer, nameLength), brief(what, 2*nameLength),
		string(op.Outcome), number, brief(op.Holder, nameLength), f.more(op),
	}
}

// exact formats an instant in milliseconds, to the microsecond.
func (f *figure) exact(at time.Duration) string {
	return strconv.FormatFloat(float64(at-f.from)/float64(time.Millisecond), 'f', 3, 64)
}

// more returns the fields that only some kinds have.
func (f *figure) more(op *history.Op) string {
	text := ""
	if op.Until > 0 {
		text += ", until " + f.exact(op.Until)
	}
	if op.Kind == history.Read || op.Traced {
		text += fmt.Sprintf(", counted %d", op.Counted)
	}
	if op.Seen > 0 {
		text += fmt.Sprintf(", read version %d", op.Seen)
	}
	if op.Made > 0 {
		text += fmt.Sprintf(", made version %d", op.Made)
	}
	return cmp.Or(text, ", ")[2:]
}

func ops(n int) string {
	if n == 1 {
		return "1 op"
	}
	return strconv.Itoa(n) + " ops"
}

// sentence describes op in words. It is the tooltip of op's shape.
func (f *figure) sentence(op *history.Op) string {
	text := fmt.Sprintf("%s, %s: %s %s", f.millis(op.Began), brief(op.Writer, nameLength), cmp.Or(brief(op.Note, nameLength), string(op.Kind)), op.Outcome)
	if op.Number > 0 {
		text += fmt.Sprintf(", #%d", op.Number)
	}
	return text + ", until " + f.millis(op.Ended)
}

// describe describes the whole figure in words, for readers who cannot see it.
func (f *figure) describe() string {
	if len(f.shown) == 0 {
		return "Nothing happened."
	}
	var names []string
	for _, l := range f.lanes[:min(len(f.lanes), mostLanes)] {
		names = append(names, brief(l.name, nameLength))
	}
	text := fmt.Sprintf("Time runs from left to right, for %s ms. A lane each for %s. Under them the mark of %s, which changes %d times.",
		f.millis(f.to), strings.Join(names, ", "), brief(f.resource, nameLength), len(f.fence.steps))
	if f.broken != nil {
		text += fmt.Sprintf(" At %s ms the rule %s is broken: %s", f.millis(f.callout.at), f.broken.Rule.ID, f.broken.Why)
	}
	return text
}

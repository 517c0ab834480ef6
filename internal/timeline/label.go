package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// label makes labels for everything. fitting chooses those that are shown.
func (f *figure) label() {
	for _, l := range f.held {
		f.labelLease(l)
	}
	for _, op := range f.shown {
		l := f.laneOf[op.Writer]
		switch {
		case op.Kind == history.Fault:
			f.labelFault(l, op)
		case l != nil:
			f.labelOp(l, op)
		}
		f.labelArrival(op)
	}
}

func (f *figure) labelLease(l lease) {
	lane := f.laneOf[l.writer]
	y := f.middle(lane)
	begin := max(l.from, f.from)
	token := label{row: "bar " + l.writer, at: f.scale.index(begin), rank: 1, text: f.numbers.short(l.number), class: "token", hue: lane.hue + 1, dx: 8, y: y + 4}
	if until := min(f.next(lane, begin), l.until); until <= f.to {
		token.until = f.scale.index(until)
	}
	if f.crowded() {
		token.rank, token.until = leastRank, 0
	}
	f.labels.add(token)
	if l.end == expired && l.until <= f.to {
		f.words(lane, label{at: f.scale.index(l.until), rank: leastRank, text: "lease over", class: "soft"})
	}
}

// next returns when the next op or fault is drawn on a lane.
func (f *figure) next(l *lane, after time.Duration) time.Duration {
	next := never
	for _, i := range l.ops {
		if op := f.shown[i]; op.Began > after && op.Kind != history.Unit {
			next = min(next, op.Began)
		}
	}
	return next
}

// words adds a label over a lane.
func (f *figure) words(lane *lane, l label) {
	l.row, l.dx, l.y = "lane "+lane.name, -3, f.middle(lane)-15
	if f.crowded() {
		if l.rank > 0 {
			return
		}
		l.dx, l.y = 6, f.middle(lane)-4
	}
	f.labels.add(l)
}

func (f *figure) labelFault(lane *lane, op *history.Op) {
	l := label{at: f.scale.index(op.Began), rank: 1, text: brief(cmp.Or(op.Note, "paused"), 40), class: "fault"}
	if op.Ended > op.Began && !f.crowded() {
		l.row, l.dx, l.y, l.until = "bar "+lane.name, 14, f.middle(lane)+4, f.scale.index(op.Ended)
		f.labels.add(l)
		return
	}
	f.words(lane, l)
}

// labelOp labels over the lane what its writer requested, or what the lock answered.
func (f *figure) labelOp(lane *lane, op *history.Op) {
	if op.Kind == history.Unit && !f.bare[op] {
		return // its writes are labelled
	}
	l := label{at: f.scale.index(op.Began), rank: ranks[op.Kind], class: "word", text: verb(op)}
	if asked := op.Kind == history.Renew || op.Kind == history.Acquire; asked && op.Outcome != history.Accepted {
		l.at = f.scale.index(op.Ended)
	}
	if f.isBad(op) {
		l.rank = 0
	}
	f.words(lane, l)
}

var ranks = map[history.Kind]int{history.Acquire: 3, history.Write: 2, history.Claim: 2, history.Unit: 3, history.Read: 3, history.Mark: 2, history.Renew: 2, history.Release: 3}

// verb returns the word for op, or "" if its drawing is enough.
func verb(op *history.Op) string {
	if op.Note != "" {
		return brief(op.Note, 40)
	}
	outcome := map[history.Outcome]string{history.Refused: " refused", history.Unknown: " unanswered", history.Failed: " failed"}[op.Outcome]
	switch op.Kind {
	case history.Acquire:
		if outcome == "" {
			return "asks"
		}
		return "lock" + outcome
	case history.Renew:
		if outcome != "" {
			return "renewal" + outcome
		}
		return ""
	case history.Release:
		return "releases" + map[bool]string{true: ":" + outcome}[outcome != ""]
	case history.Claim:
		return "claims"
	case history.Write:
		return "writes"
	case history.Unit:
		return "works"
	case history.Read:
		return fmt.Sprintf("counts %d", op.Counted)
	}
	return ""
}

// label is text at an instant, in a row. Labels of a row never overlap.
type label struct {
	row   string
	at    int // index of the instant
	until int // if not 0, the instant before which it ends
	rank  int // 0 is always shown; labels with greater ranks are left out first
	text  string
	class string
	hue   int // 0 is none, otherwise a lane's hue plus one
	dx, y float64
}

// leastRank is the rank of labels that are left out first.
const leastRank = 3

// space is the space between two labels.
const space = 7.0

func (l label) size() float64 {
	if l.class == "token" {
		return 13 // token labels are bold
	}
	return 11
}

func (l label) long() float64 { return l.dx + wide(l.text, l.size()) }

// labels are the labels of a figure.
type labels []label

// add adds l, merged with a label at the same place if there is one.
func (all *labels) add(l label) {
	if l.text == "" {
		return
	}
	l.text = visible(l.text)
	for i := range *all {
		other := &(*all)[i]
		if other.row != l.row || other.at != l.at {
			continue
		}
		if other.text != l.text {
			other.text += ", " + l.text
		}
		other.rank = min(other.rank, l.rank)
		return
	}
	*all = append(*all, l)
}

// fitting leaves out labels that do not fit: those with the greatest rank first, and
// among them those farthest from the focus.
func (all labels) fitting(at []time.Duration, width float64, focus int) labels {
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(abs(a.at-focus), abs(b.at-focus)))
	})
	var kept labels
	for _, l := range ranked {
		if more := append(kept, l); l.rank == 0 || shortest(at, more.rods(len(at)-1)) <= width {
			kept = more
		}
	}
	return kept
}

// rods returns the rods that keep the labels of each row apart, and the last ones inside
// the figure.
func (all labels) rods(end int) []rod {
	rows := slices.Clone(all)
	slices.SortStableFunc(rows, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.at, b.at))
	})
	var rods []rod
	for i, l := range rows {
		to, long := end, l.long()
		if i+1 < len(rows) && rows[i+1].row == l.row {
			to, long = rows[i+1].at, long+space-min(rows[i+1].dx, 0)
		}
		if to > l.at {
			rods = append(rods, rod{l.at, to, long})
		}
		if l.until > l.at {
			rods = append(rods, rod{l.at, l.until, l.long() + space})
		}
	}
	return rods
}

// callout is the text at the top of a figure that states the violation, at the instant at
// which it happened.
type callout struct {
	rule  string
	lines []string
	at    time.Duration
}

const (
	calloutSize  = 12.0
	calloutWidth = 340.0
	calloutSmall = 200.0
	calloutLine  = 16.0
)

func newCallout(f *figure) callout {
	v := f.broken
	if v == nil || len(v.Ops) == 0 {
		return callout{}
	}
	text := visible(f.numbers.in(v.Why))
	width := calloutWidth
	if f.chart.Small {
		width = calloutSmall
	}
	return callout{visible("broken: " + v.Rule.ID), balanced(text, calloutSize, width, 5), corruption(v)}
}

// corruption returns when the last of the ops that break the rule ended.
func corruption(v *history.Violation) time.Duration { return v.Ops[len(v.Ops)-1].Ended }

func (c callout) height() float64 {
	if c.rule == "" {
		return 4
	}
	return calloutLine*float64(len(c.lines)+1) + 12
}

// draw draws the text and the line through the plot.
func (c callout) draw(f *figure, out *canvas) {
	if c.rule == "" {
		return
	}
	x := f.scale.of(c.at)
	side, dx := "", 9.0
	if x+c.textWidth() > f.width && x > c.textWidth() {
		side, dx = " end", -9.0
	}
	out.line("broken", x, 4, x, f.height-24)
	out.text("rule"+side, x+dx, 16, c.rule)
	for i, line := range c.lines {
		out.text("why"+side, x+dx, 16+calloutLine*float64(i+1), line)
	}
}

// textWidth returns the width of the text, on either side of the line.
func (c callout) textWidth() float64 {
	widest := wide(c.rule, calloutSize)
	for _, line := range c.lines {
		widest = max(widest, wide(line, calloutSize))
	}
	return widest + 9
}

package picture

import (
	"cmp"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// label puts words to everything; which of them stay is found later.
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

// next is when something else is drawn on a lane.
func (f *figure) next(l *lane, after time.Duration) time.Duration {
	next := never
	for _, i := range l.ops {
		if op := f.shown[i]; op.Began > after && op.Kind != history.Unit {
			next = min(next, op.Began)
		}
	}
	return next
}

// words stand over a lane.
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

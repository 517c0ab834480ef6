package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// picture is what the page and the text show of a chart.
type picture struct {
	*story
	Resource string
	Lanes    []string // the resource's, which has no name, and those of the writers
	Rows     []row
	Notes    []string
	shared   string        // the first digits of all numbers, which are not shown
	owners   map[int64]int // the lanes of the numbers' owners
}

// row is one event.
type row struct {
	at     time.Duration
	phase  phase
	op     *history.Op        // nil if it is no op's
	broken *history.Violation // of phase breaks
	mark   int64              // after the row

	Time   string
	Lane   int // whose event it is
	Sign   string
	States []string // of each lane
	Mark   string   // if it changed or was read
	Owner  int      // the lane of the mark's owner
	Fell   bool     // the mark changed to a smaller number
	Who    string
	Words  []word
	Tone   Tone
}

// phase orders the rows of one instant.
type phase int

const (
	leaseEnds phase = iota
	opEnds
	breaks // a rule is broken
	opBegins
	timePasses
)

// The states are what a lane shows beside the events of its writer, as classes of the page.
const (
	held    = " held"    // it has a lease
	paused  = " paused"  // or another fault
	waiting = " waiting" // a request is on its way
)

func newPicture(c Chart, limit int) *picture {
	p := &picture{story: newStory(c), Lanes: []string{""}, owners: map[int64]int{}}
	p.Resource = clean(p.resource, 200) // the longest there is
	shown := p.cut(limit)
	p.setLanes(shown)
	p.shared = sharedDigits(shown)
	p.note(p.shared != "", "#… stands for #%s, with which all numbers here begin.", p.shared)
	p.note(len(p.ops) > len(shown), "Ops that are not shown: %d.", len(p.ops)-len(shown))
	p.note(len(c.History.Ops) > len(p.ops), "Ops about other resources: %d.", len(c.History.Ops)-len(p.ops))
	if len(shown) == 0 {
		p.Notes = append(p.Notes, "Nothing happened: the history is empty.")
		return p
	}
	p.addRows(slices.DeleteFunc(shown, func(op *history.Op) bool { return !p.bad[*op] && told(op, shown) }))
	p.setMarks()
	p.setStates()
	for i := range p.Rows {
		p.describe(i)
	}
	return p
}

func (p *picture) note(applies bool, format string, args ...any) {
	if applies {
		p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
	}
}

// setLanes adds the lanes of the writers in the order in which they appeared. Observers, which
// only read, have none: their reads are the resource's. A number's owner is its first user.
func (p *picture) setLanes(shown []*history.Op) {
	for _, op := range shown {
		if p.lane(op.Writer) == 0 && op.Kind != history.Read && op.Kind != history.Mark {
			p.Lanes = append(p.Lanes, op.Writer)
		}
		if op.Number > 0 && p.owners[op.Number] == 0 {
			p.owners[op.Number] = p.lane(op.Writer)
		}
	}
}

// lane returns the lane of a writer, or that of the resource.
func (p *picture) lane(writer string) int { return max(slices.Index(p.Lanes, writer), 0) }

// told reports whether op is a unit of work whose write says the same.
func told(op *history.Op, shown []*history.Op) bool {
	return op.Kind == history.Unit && slices.ContainsFunc(shown, func(other *history.Op) bool {
		return other.Kind == history.Write && other.Writer == op.Writer && other.Number == op.Number &&
			other.Outcome == op.Outcome && other.Counted == op.Counted && other.Began <= op.Ended && op.Began <= other.Ended
	})
}

// addRows adds the rows in their order.
func (p *picture) addRows(shown []*history.Op) {
	var last time.Duration
	for _, op := range shown {
		r := row{at: op.Ended, phase: opEnds, op: op, Lane: p.lane(op.Writer)}
		p.Rows = append(p.Rows, r)
		if r.at, r.phase = op.Began, opBegins; p.isLong(op, shown) {
			p.Rows = append(p.Rows, r)
		}
		last = max(last, op.Ended)
	}
	for _, l := range p.leases {
		if l.by == nil && l.until <= last && slices.Contains(shown, l.op) {
			p.Rows = append(p.Rows, row{at: l.until, phase: leaseEnds, op: l.op, Lane: p.lane(l.op.Writer)})
		}
	}
	broken := 0
	for i, v := range p.Violations {
		r := row{phase: breaks, broken: &p.Violations[i]}
		for _, op := range v.Ops {
			r.at = max(r.at, op.Ended)
		}
		if v.Resource == p.resource && r.at >= shown[0].Began && r.at <= last && broken < mostBroken {
			broken++
			p.Rows = append(p.Rows, r)
		}
	}
	p.note(broken < len(p.Violations), "Violations that are not shown: %d.", len(p.Violations)-broken)
	slices.SortStableFunc(p.Rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.phase, b.phase)) })
	usual := p.long() / time.Duration(len(p.Rows)) // the time between two rows
	for i := len(p.Rows) - 1; i > 0; i-- {
		if at := p.Rows[i-1].at; len(p.Rows) > 2 && p.Rows[i].at-at > 3*usual {
			p.Rows = slices.Insert(p.Rows, i, row{at: at, phase: timePasses})
		}
	}
}

// isLong reports whether op has a row for its beginning too: a fault, a request for a lock
// that another writer has, and any but a read during which another writer's op ended.
func (p *picture) isLong(op *history.Op, shown []*history.Op) bool {
	switch {
	case op.Began == op.Ended, op.Kind == history.Read, op.Kind == history.Mark:
		return false
	case op.Kind == history.Fault, op.Kind == history.Acquire && p.holder(op) != "":
		return true
	}
	return slices.ContainsFunc(shown, func(other *history.Op) bool {
		return other.Writer != op.Writer && other.Ended > op.Began && other.Ended < op.Ended
	})
}

// holder returns the other writer that had the lock when op began.
func (p *picture) holder(op *history.Op) string {
	for _, l := range p.leases {
		if l.op.Ended <= op.Began && l.until > op.Began && l.op.Writer != op.Writer {
			return l.op.Writer
		}
	}
	return ""
}

// long returns the time between the first and the last row.
func (p *picture) long() time.Duration { return p.Rows[len(p.Rows)-1].at - p.Rows[0].at }

// millis returns a time in milliseconds, with fewer digits if the picture is long.
func (p *picture) millis(d time.Duration) string {
	digits := map[bool]int{false: 3, true: 1}[p.long() >= 100*time.Millisecond]
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', digits, 64)
}

// setMarks sets the time of each row and the mark after it. Steps of ops that are not shown
// come before the next row.
func (p *picture) setMarks() {
	next, before := 0, int64(0)
	for i := range p.Rows {
		r := &p.Rows[i]
		r.mark = before
		for ; next < len(p.steps); next++ {
			s := p.steps[next]
			if s.op.Ended > r.at || s.op.Ended == r.at && p.end(s.op) > i {
				break
			}
			r.mark, r.Fell = s.mark, s.fell && i > 0
		}
		switch r.Time, r.Owner = p.millis(r.at-p.Rows[0].at), p.owners[r.mark]; {
		case r.phase == timePasses:
			r.Time = "⋮"
		case r.Fell:
			r.Mark = "↓" + p.short(r.mark)
		case r.mark != before:
			r.Mark = p.short(r.mark)
		case r.op != nil && r.Lane == 0:
			r.Mark = "◆"
		}
		before = r.mark
	}
}

// setStates sets the states of the lanes, from the rows at which leases, faults and requests
// begin up to those at which they end.
func (p *picture) setStates() {
	for i := range p.Rows {
		p.Rows[i].States = make([]string, len(p.Lanes))
	}
	span := func(lane, from, to int, state string) {
		for i := from; i < to && lane > 0; i++ {
			if cell := &p.Rows[i].States[lane]; !strings.Contains(*cell, state) {
				*cell += state
			}
		}
	}
	for i, r := range p.Rows {
		if r.phase == opBegins {
			span(r.Lane, i, p.end(r.op), map[bool]string{false: waiting, true: paused}[r.op.Kind == history.Fault])
		}
	}
	for _, l := range p.leases {
		to := sort.Search(len(p.Rows), func(i int) bool { return p.Rows[i].at >= l.until })
		if l.by != nil {
			to = p.end(l.by)
		}
		span(p.lane(l.op.Writer), p.end(l.op), to, held)
	}
}

// end returns the row at which op ended, or the first one after that if op is not shown.
func (p *picture) end(op *history.Op) int {
	if i := slices.IndexFunc(p.Rows, func(r row) bool { return r.op == op && r.phase == opEnds }); i >= 0 {
		return i
	}
	return sort.Search(len(p.Rows), func(i int) bool { return p.Rows[i].at > op.Ended })
}

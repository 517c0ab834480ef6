package kernel

import (
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/lock"
	"github.com/fencepost/fencepost/token"
)

// store is a database: rows, and the marks that guard them. What it does in one
// step is a transaction.
type store struct {
	node
	rows  []row        // by resource
	marks []guard.Mark // by resource; zero: none, judged by the floor
	floor int64
}

type row struct {
	value   int   // units that are remembered
	version int64 // of the value: each change makes the next
}

func newStore(w *world) *store {
	s := &store{
		node: node{w: w, place: atStore, name: "store"},
		rows: make([]row, len(w.names)), marks: make([]guard.Mark, len(w.names)),
	}
	for r := range s.rows {
		s.rows[r].version = 1 // the history takes 0 for not known
	}
	return s
}

// mark is that of a resource, or the floor.
func (s *store) mark(resource int) guard.Mark {
	if mark := s.marks[resource]; mark.Number > 0 {
		return mark
	}
	return guard.Mark{Number: s.floor}
}

// admit compares and raises. The unguarded control takes no notice of a refusal.
func (s *store) admit(resource int, tok token.Token) error {
	raised, err := s.w.laws.raised(s.mark(resource), tok)
	if err != nil {
		if s.w.observe {
			return nil
		}
		return err
	}
	s.marks[resource] = raised
	return nil
}

// write admits and applies in one transaction. A unit that was applied is
// answered first, as it was then: a copy that is refused would say, of the unit,
// what is not true.
func (s *store) write(q *request, answer func(reply)) {
	if u := &s.w.units[q.task.unit]; u.applied > 0 {
		answer(u.reply())
		return
	}
	s.under(q, s.w.laws.admit, answer, func() { answer(s.w.laws.apply(s, q)) })
}

// under does something if the token is admitted, and else answers that it is not.
func (s *store) under(q *request, admit func(*store, int, token.Token) error, answer func(reply), do func()) {
	if err := admit(s, q.resource, q.tok); err != nil {
		answer(reply{err: err})
		return
	}
	do()
}

// apply writes what the holder has made of what it read, once.
func (s *store) apply(q *request) reply {
	u := &s.w.units[q.task.unit]
	if u.applied == 0 {
		s.put(q, u)
	}
	return u.reply()
}

func (s *store) put(q *request, u *unit) {
	r := &s.rows[q.resource]
	r.value = q.seen.value + 1
	r.version++
	u.applied++
	u.seen, u.made = q.seen.version, r.version
	u.writes = append(u.writes, q.write)
}

// restart takes the store away, and the service before it.
func (s *store) restart(away time.Duration) {
	s.node.restart(away)
	if s.w.service != nil {
		s.w.service.open()
	}
	s.w.laws.awaken(s)
}

// now is the least number that is minted now, by the store's clock.
func (s *store) now() int64 { return lock.Clock(s.clock()) }

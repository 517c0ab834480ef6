package dst

import (
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/token"
)

// store is a database: rows, and the marks that guard them. Each of its steps is one
// transaction.
type store struct {
	node
	rows  []row        // by resource
	marks []guard.Mark // by resource; zero: none, judged by the floor
	floor int64
}

type row struct {
	value   int   // units that are remembered
	version int64 // of the value; each change increases it by one
}

func newStore(w *world) *store {
	s := &store{
		node: node{w: w, place: atStore, name: "store"},
		rows: make([]row, len(w.names)), marks: make([]guard.Mark, len(w.names)),
	}
	for r := range s.rows {
		s.rows[r].version = 1 // in a history, 0 means unknown
	}
	return s
}

// mark returns the mark of a resource, or the floor.
func (s *store) mark(resource int) guard.Mark {
	if mark := s.marks[resource]; mark.Number > 0 {
		return mark
	}
	return guard.Mark{Number: s.floor}
}

// admit compares and raises. The unguarded control ignores a refusal.
func (s *store) admit(resource int, tok token.Token) error {
	raised, err := s.w.decisions.raised(s.mark(resource), tok)
	if err != nil {
		if s.w.ignoreRefusals {
			return nil
		}
		return err
	}
	s.marks[resource] = raised
	return nil
}

// write admits and applies in one transaction. A unit that was applied before gets its
// first answer again, before the mark is compared: a refusal of the second copy would be
// wrong for the unit.
func (s *store) write(q *request, answer func(reply)) {
	if u := &s.w.units[q.task.unit]; u.applied > 0 {
		answer(u.reply())
		return
	}
	s.under(q, s.w.decisions.admit, answer, func() { answer(s.w.decisions.apply(s, q)) })
}

// under calls do if the token is admitted, and otherwise answers with the refusal.
func (s *store) under(q *request, admit func(*store, int, token.Token) error, answer func(reply), do func()) {
	if err := admit(s, q.resource, q.tok); err != nil {
		answer(reply{err: err})
		return
	}
	do()
}

// apply writes the holder's new value, once.
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

// restart stops the store and the service for a while.
func (s *store) restart(away time.Duration) {
	s.node.restart(away)
	if s.w.service != nil {
		s.w.service.open()
	}
	s.w.decisions.afterStoreRestart(s)
}

// now returns the least number that may be minted at the store's time.
func (s *store) now() int64 { return lockstate.Clock(s.clock()) }

// prune deletes the marks below cutoff. It raises the floor to cutoff in the same
// transaction.
func (s *store) prune(cutoff int64) {
	s.floor = max(s.floor, cutoff)
	for r := range s.marks {
		if s.marks[r].Number < cutoff {
			deleted := s.marks[r].Number > 0
			s.marks[r] = guard.Mark{}
			s.pruned(r, deleted)
		}
	}
}

// pruned records the floor as a claim of the resource. If there was no mark, the floor
// explains refusals, and the claim's outcome is recorded as unknown. The floor is below
// an admitted number only if that mark had been lost before, and then a stale token must
// still arrive to break a rule.
func (s *store) pruned(resource int, deleted bool) {
	entry := s.w.note(history.Claim, "prune", resource)
	entry.Number, entry.Holder = s.floor, "prune"
	if !deleted {
		entry.Outcome = history.Unknown
	}
}

// request is a claim or a write under a token.
type request struct {
	resource int
	tok      token.Token
	signed   signature.Signed // if it goes to the service
	task     *task            // nil: a claim
	write    op               // the attempt, if the holder writes directly
	seen     row              // the row that the holder read
}

// reply is the guard's answer.
type reply struct {
	err        error
	seen, made int64 // versions
	by         op    // the attempt that was applied
}

// listener receives the guard's answer.
type listener interface {
	onReply(reply)
	onTimeout() // no answer in time
}

// ask sends a request to the store, or to the service through its proxy.
func (h *hold) ask(q *request, l listener) {
	if s := h.w.service; s != nil {
		s.ask(h, q, l)
		return
	}
	s := h.w.store
	call(h.process, &s.node, replyTimeout, &admission{l, s, q})
}

// admission is a request to the store itself.
type admission struct {
	listener
	store   *store
	request *request
}

func (a *admission) onRequest(answer func(reply)) {
	s, q := a.store, a.request
	if q.task != nil {
		s.w.decisions.write(s, q, answer)
		return
	}
	answer(reply{err: s.w.decisions.admit(s, q.resource, q.tok)})
}

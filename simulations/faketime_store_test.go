package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/token"
)

// store is the server of the resource: a row that counts units, and the marks. All
// operations on it are recorded. It remembers which units it has applied, since a guard
// makes nothing idempotent.
type store struct {
	*history.Recorder
	marks   prunable
	service http.Handler // in front of the store
	draw    *randomSource
	repeats bool // a mistake: a unit is applied as often as it arrives

	mu    sync.Mutex
	row   row
	units []*unit       // that were applied
	wrote time.Duration // when the last was
}

// row is the resource. Each write makes a version, whatever its value.
type row struct {
	value   int   // units that are remembered
	version int64 // in a history, 0 means unknown, so it starts at 1
}

// unit is one unit of work, which several attempts may try to apply.
type unit struct {
	op      history.Op
	applied int
}

func newStore(recorder *history.Recorder, draw *randomSource) *store {
	s := &store{Recorder: recorder, row: row{version: 1}, draw: draw}
	s.marks.marks = new(guard.Memory)
	s.service = httpguard.Middleware{
		Resources: func(*http.Request) ([]string, error) { return []string{disputed}, nil },
		Store:     remote{&s.marks, draw}, Keyring: keyring,
	}.Wrap(http.HandlerFunc(s.serve))
	return s
}

// keyring signs the tokens that holders send to the service.
var keyring = func() *signature.Keyring {
	ring, err := signature.New(signature.Key{ID: "k", Secret: make([]byte, signature.MinSecret)})
	if err != nil {
		panic(err)
	}
	return ring
}()

func (s *store) read() row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row
}

func (s *store) lastWrite() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrote
}

// write compares and writes in one step. If another attempt has applied the unit, it
// writes nothing, and answers as that did.
func (s *store) write(ctx context.Context, tok token.Token, u *unit, seen row, op *history.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.applied == 0 || s.repeats {
		if err := s.marks.Admit(ctx, tok); err != nil {
			return err
		}
	}
	s.apply(u, seen, op)
	return nil
}

func (s *store) apply(u *unit, seen row, op *history.Op) {
	if u.applied > 0 && !s.repeats {
		op.Outcome = history.Failed
		return
	}
	s.row = row{seen.value + 1, s.row.version + 1}
	op.Seen, op.Made = seen.version, s.row.version
	u.applied++
	s.units, s.wrote = append(s.units, u), s.Now()
}

// attempt is what a request over HTTP is about.
type attempt struct {
	unit *unit
	op   *history.Op
}

type attemptKey struct{}

// serve is the handler of the service. It reads, works and writes without a guard of its
// own: only the table of requests in flight keeps an older token's handler from writing
// between its read and its write. Every second handler ignores that it was cancelled.
func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	a := r.Context().Value(attemptKey{}).(*attempt)
	seen := s.read()
	time.Sleep(s.draw.think() * 2)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Context().Err() != nil && s.draw.chance(50) {
		a.op.Outcome = history.Failed
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.apply(a.unit, seen, a.op)
}

// forge sends a number that no issuer has made to the service. If it were admitted, no
// holder could write afterwards.
func (s *store) forge(ctx context.Context, number int64) {
	text, err := httpguard.Format(token.Token{Resource: disputed, Number: number, Holder: "stranger"})
	if err != nil {
		panic(err)
	}
	ctx = context.WithValue(ctx, attemptKey{}, &attempt{new(unit), new(history.Op)})
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/42", http.NoBody)
	req.Header.Set(httpguard.Header, text)
	s.service.ServeHTTP(httptest.NewRecorder(), req)
}

// think returns how long work takes: usually short, sometimes longer than a lease.
func (d *randomSource) think() time.Duration {
	if d.chance(15) {
		return d.upTo(3 * leaseTTL / 2)
	}
	return d.upTo(leaseTTL / 5)
}

// prunable is a [guard.Memory] whose marks can be deleted. A resource without a mark is
// judged by the floor, as in the tables of the SQL guards.
type prunable struct {
	mu    sync.Mutex
	marks *guard.Memory
	floor int64

	floorless bool // a mistake: the floor is not raised
}

// Admit implements [guard.Store].
func (m *prunable) Admit(ctx context.Context, tok token.Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	floor := guard.Mark{Number: m.floor}
	if m.marks.Mark(disputed) == (guard.Mark{}) && !failpoint.IsUnguarded(ctx) {
		if err := floor.Admits(tok); err != nil {
			return err
		}
	}
	return m.marks.Admit(ctx, tok)
}

// remote is how the service reaches the marks.
type remote struct {
	*prunable
	draw *randomSource
}

// Admit implements [guard.Store].
func (m remote) Admit(ctx context.Context, tok token.Token) error {
	time.Sleep(m.draw.think() / 4)
	defer time.Sleep(m.draw.think())
	return m.prunable.Admit(ctx, tok)
}

// prune deletes the mark if it is below cutoff, and raises the floor to cutoff in the same
// step. It records the floor as a claim, which is Unknown if there was no mark.
func (s *store) prune(cutoff int64) {
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	if !s.marks.floorless {
		s.marks.floor = max(s.marks.floor, cutoff)
	}
	mark := s.marks.marks.Mark(disputed)
	if mark.Number >= cutoff {
		return
	}
	s.marks.marks = new(guard.Memory)
	op := history.Op{Kind: history.Claim, Writer: "prune", Holder: "prune", Number: s.marks.floor, Outcome: history.Accepted}
	if mark.Number == 0 {
		op.Outcome = history.Unknown
	}
	s.note(op)
}

// note records an operation without duration.
func (s *store) note(op history.Op) {
	op.Resource, op.Began, op.Ended = disputed, s.Now(), s.Now()
	s.Add(op)
}

// fault records that who was disturbed for d.
func (s *store) fault(who, what string, d time.Duration) {
	now := s.Now()
	s.Add(history.Op{Kind: history.Fault, Writer: who, Resource: disputed, Note: what, Began: now, Ended: now + d, Outcome: history.Accepted})
}

// lost returns the number of applied units that were overwritten without being read.
func (s *store) lost() int { return len(s.units) - s.row.value }

// judge checks the recorded history by the rules that apply.
func (w *world) judge() error {
	w.note(history.Op{Kind: history.Read, Writer: "judge", Counted: w.row.value, Outcome: history.Accepted})
	if mark := w.marks.marks.Mark(disputed); mark.Number > 0 {
		w.note(history.Op{Kind: history.Mark, Writer: "judge", Number: mark.Number, Holder: mark.Holder, Outcome: history.Accepted})
	}
	h := w.History()
	h.TTL, h.Slack = leaseTTL, slack
	broken, err := history.CheckOnly(h, w.judges)
	for _, v := range broken {
		err = errors.Join(err, errors.New(v.String()))
	}
	return err
}

// transcript returns the history as text, without the random part of the holders, which
// differs between runs.
func (s *store) transcript() string {
	var text strings.Builder
	for _, op := range s.History().Ops {
		op.Holder = ""
		fmt.Fprintf(&text, "%+v\n", op)
	}
	return text.String()
}

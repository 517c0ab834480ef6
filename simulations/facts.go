package simulations

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
)

// transaction is a transaction of a writer, or a single statement or request.
type transaction struct {
	key     any
	guard   bool // a guard began it
	claim   bool // it is a Locker's claim, or mints
	admits  bool // a guard has admitted a token in it
	beside  bool // it began while another was open in which a guard has admitted a token
	late    bool // it began after the writer's unit of work had ended
	undoes  bool // it went on after a ROLLBACK TO that followed the admission
	retries bool // it began after a reply was lost, or after an unknown outcome
	outside outside
	end     failpoint.Step
	began   time.Duration
	sent    []string
}

// outside is a write outside of the writer's own Hold.
type outside int

const (
	inHold outside = iota // or there is no Hold of its own
	beforeHold
	afterHold
)

// fenced reports whether a guard compared a token in t.
func (t *transaction) fenced() bool { return t.guard || t.admits }

// wrote reports whether t has, or may have, written.
func (t *transaction) wrote() bool { return t.end == failpoint.Applied || t.end == failpoint.Unknown }

// blockedBeside reports whether t was to write beside a guard's open transaction and did
// not: it waits for a row of that transaction or, in SQLite, for its end.
func (t *transaction) blockedBeside() bool {
	return t.beside && !t.wrote() && len(t.tables()) > 0
}

// facts are what guards and tracers report about one writer.
type facts struct {
	mu    sync.Mutex
	known known
}

// known are the facts at one instant.
type known struct {
	all         []*transaction
	drivers     []string
	refused     []error  // by which guards have refused
	numbers     []int64  // of the tokens it wrote under
	own         []int64  // of the tokens it has acquired or minted
	mintedAs    []string // the resources of the numbers that it minted for its own lock
	lost        int      // replies, or COMMITs
	idles       bool     // a guard can have the server end an idle transaction
	admitted    bool     // by a guard
	refusedLast bool     // no guard admitted a write after the last refusal
	observed    bool     // a write was made under a number that had been refused
	dropped     bool     // a COMMIT, or another write, was not sent: its outcome is unknown
	reentered   bool     // it held the resource inside of the run's Hold
	tried       []string // the keys of the units that guards were to apply once
	repeated    bool     // a guard returned the first result of a unit
	done        bool     // the unit of work has ended

	begun, ended time.Duration // of the unit of work
}

// now returns a copy of what is known.
func (f *facts) now() known {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.known
	k.all = make([]*transaction, len(f.known.all))
	for i, t := range f.known.all {
		now := *t
		k.all[i] = &now
	}
	return k
}

// traced is implemented by the keys of tracers, and not by those of guards.
type traced interface{ Traced() }

func (f *facts) begin(ctx context.Context, key any, claim bool, began time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, byTracer := key.(traced)
	t := &transaction{key: key, guard: !byTracer, late: f.known.done, began: began}
	t.retries = f.known.lost > 0 || f.known.some(func(o *transaction) bool { return o.end == failpoint.Unknown })
	t.claim = claim || t.guard && failpoint.IsClaim(ctx)
	t.beside = slices.ContainsFunc(f.known.all, func(o *transaction) bool { return o.end == "" && o.admits })
	f.known.all = append(f.known.all, t)
}

// of returns the open transaction of key, or nil.
func (f *facts) of(key any) *transaction {
	for _, t := range slices.Backward(f.known.all) {
		if t.key == key && t.end == "" {
			return t
		}
	}
	return nil
}

func (f *facts) at(step failpoint.Step, key any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.admitted = f.known.admitted || step == failpoint.Admitted
	t := f.of(key)
	if t == nil {
		return
	}
	if step == failpoint.Admitted {
		t.admits = true
	}
	if ended, _ := result(step); ended {
		t.end = step
	}
}

func (f *facts) note(fact any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch fact := fact.(type) {
	case failpoint.Sent:
		if !slices.Contains(f.known.drivers, fact.Driver) {
			f.known.drivers = append(f.known.drivers, fact.Driver)
		}
		if t := f.of(fact.Key); t != nil {
			t.sent = append(t.sent, fact.SQL)
		}
	case failpoint.Joined:
		if t := f.of(fact.Key); t != nil {
			t.admits = true
		}
	case failpoint.RolledBack:
		if t := f.of(fact.Key); t != nil {
			t.undoes = t.undoes || t.admits
		}
	case failpoint.Refused:
		f.known.refused, f.known.refusedLast = append(f.known.refused, fact.Err), true
	case failpoint.Tried:
		f.known.tried = append(f.known.tried, fact.Key)
	case failpoint.Repeated:
		f.known.repeated = true
	case failpoint.Minted:
		f.known.mintedAs = append(f.known.mintedAs, fact.Resource)
		f.mintedIn()
	}
}

// mintedIn marks the transaction that has minted a number: the guard's own, or the
// caller's, which is fenced from then on.
func (f *facts) mintedIn() {
	for _, t := range slices.Backward(f.known.all) {
		if t.guard {
			t.claim = true
			return
		}
		if t.end == "" {
			t.admits = true
			return
		}
	}
}

func (f *facts) set(change func(*known)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.known)
}

func (f *facts) bounded() { f.set(func(k *known) { k.idles = true }) }
func (f *facts) drop()    { f.set(func(k *known) { k.lost, k.dropped = k.lost+1, true }) }
func (f *facts) lose()    { f.set(func(k *known) { k.lost++ }) }
func (f *facts) reenter() { f.set(func(k *known) { k.reentered = true }) }

// outside records that key was written outside of the writer's own Hold, under no token.
func (f *facts) outside(key any, when outside) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range slices.Backward(f.known.all) {
		if t.key == key {
			t.outside = when
			return
		}
	}
}

// under records that key was written under the number n.
func (f *facts) under(n int64, key any) {
	_, byTracer := key.(traced)
	f.set(func(k *known) {
		k.numbers = append(k.numbers, n)
		if byTracer {
			return
		}
		k.refusedLast = false
		k.observed = k.observed || slices.ContainsFunc(k.refused, func(err error) bool {
			var stale *guard.StaleError
			return errors.As(err, &stale) && stale.Token.Number == n
		})
	})
}

// have adds the number of a token that the writer has acquired or minted.
func (f *facts) have(n int64) { f.set(func(k *known) { k.own = append(k.own, n) }) }

// misnamed returns the resource that the writer minted for, if it differs from this one.
func (k known) misnamed(resource string) string {
	if len(k.mintedAs) == 0 || slices.Contains(k.mintedAs, resource) {
		return ""
	}
	return k.mintedAs[0]
}

// evictable reports whether the writer is inside a transaction that the server ends if it
// is idle for long.
func (k known) evictable() bool {
	return k.idles && k.some(func(t *transaction) bool { return t.end == "" && t.admits })
}

// some reports whether there is such a transaction.
func (k known) some(is func(*transaction) bool) bool { return slices.ContainsFunc(k.all, is) }

// last returns when the last such transaction began, or 0.
func (k known) last(is func(*transaction) bool) (began time.Duration) {
	for _, t := range k.all {
		if is(t) {
			began = t.began
		}
	}
	return began
}

// finish records that the unit of work has ended. A transaction that is still open has
// outlived it.
func (f *facts) finish(begun, ended time.Duration) {
	f.set(func(k *known) {
		k.done, k.begun, k.ended = true, begun, ended
		for _, t := range k.all {
			t.late = t.late || t.end == ""
		}
	})
}

var written = regexp.MustCompile(`(?is)\b(?:INSERT\s+INTO|REPLACE\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+(?:ONLY\s+)?([\w."` + "`" + `]+)`)

// tables returns the tables that t's statements write, as far as their text shows.
func (t *transaction) tables() (names []string) {
	for _, sql := range t.sent {
		for _, found := range written.FindAllStringSubmatch(sql, -1) {
			names = append(names, strings.ToLower(found[1]))
		}
	}
	return names
}

// sameTable reports whether both write one table.
func (t *transaction) sameTable(other *transaction) bool {
	theirs := other.tables()
	return slices.ContainsFunc(t.tables(), func(name string) bool { return slices.Contains(theirs, name) })
}

// statement returns the writing statement of t in a form for a sentence, or the last
// statement if none is recognized, as in Redis.
func (t *transaction) statement() string {
	for _, sql := range t.sent {
		if written.MatchString(sql) {
			return quote(sql)
		}
	}
	if len(t.sent) == 0 {
		return ""
	}
	return quote(t.sent[len(t.sent)-1])
}

// quote returns a statement in a form for a sentence.
func quote(sql string) string {
	sql = strings.Join(strings.Fields(sql), " ")
	if len(sql) > 80 {
		sql = sql[:80] + "…"
	}
	return " (" + sql + ")"
}

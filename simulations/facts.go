package simulations

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
)

// transaction is a transaction of a writer, or a single statement or request.
type transaction struct {
	key     any
	guard   bool // a guard began it
	claim   bool // it is a Locker's claim
	admits  bool // a guard has admitted a token in it
	beside  bool // it began while another was open in which a guard has admitted a token
	late    bool // it began after the writer's unit of work had ended
	undoes  bool // it went on after a ROLLBACK TO that followed the admission
	retries bool // it began after a reply was lost
	outside outside
	end     failpoint.Step
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

// facts are what guards and tracers have reported about one writer.
type facts struct {
	mu          sync.Mutex
	all         []*transaction
	drivers     []string
	refused     []error
	numbers     []int64 // of the tokens it wrote under
	own         []int64 // of the tokens it has acquired or minted
	mintedAs    []string
	lost        int  // replies, or COMMITs
	idles       bool // a guard can have the server end an idle transaction
	admitted    bool
	refusedLast bool // no guard admitted a write after the last refusal
	observed    bool // a write was made under a number that had been refused
	dropped     bool // a COMMIT, or another write, was not sent
	reentered   bool // it held the resource inside of the run's Hold
	minted      bool
	tried       []string // the keys of the units that guards were to apply once
	repeated    bool     // a guard returned the first result of a unit
	done        bool     // the unit of work has ended
}

// traced is implemented by the keys of tracers, and not by those of guards.
type traced interface{ Traced() }

func (f *facts) begin(ctx context.Context, key any, claim bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, byTracer := key.(traced)
	t := &transaction{key: key, guard: !byTracer, late: f.done, retries: f.lost > 0}
	t.claim = claim || t.guard && failpoint.IsClaim(ctx)
	t.beside = slices.ContainsFunc(f.all, func(o *transaction) bool { return o.end == "" && o.admits })
	f.all = append(f.all, t)
}

// of returns the open transaction of key, or nil.
func (f *facts) of(key any) *transaction {
	for _, t := range slices.Backward(f.all) {
		if t.key == key && t.end == "" {
			return t
		}
	}
	return nil
}

func (f *facts) at(step failpoint.Step, key any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admitted = f.admitted || step == failpoint.Admitted
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
		if !slices.Contains(f.drivers, fact.Driver) {
			f.drivers = append(f.drivers, fact.Driver)
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
		f.refused, f.refusedLast = append(f.refused, fact.Err), true
	case failpoint.Tried:
		f.tried = append(f.tried, fact.Key)
	case failpoint.Repeated:
		f.repeated = true
	case failpoint.Minted:
		f.minted = true
		f.mintedAs = append(f.mintedAs, fact.Resource)
		f.mintedIn()
	}
}

// mintedIn marks the transaction that has minted a number: the guard's own, or the
// caller's, which is fenced from then on.
func (f *facts) mintedIn() {
	for _, t := range slices.Backward(f.all) {
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

func (f *facts) set(change func(*facts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *facts) is(so func(*facts) bool) (is bool) {
	f.set(func(f *facts) { is = so(f) })
	return is
}

// repeats reports whether a guard has returned the first result of a unit.
func (f *facts) repeats() bool { return f.is(func(f *facts) bool { return f.repeated }) }

// keys returns the keys of the units that guards were to apply once.
func (f *facts) keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tried)
}

func (f *facts) bounded() { f.set(func(f *facts) { f.idles = true }) }
func (f *facts) drop()    { f.set(func(f *facts) { f.lost, f.dropped = f.lost+1, true }) }
func (f *facts) lose()    { f.set(func(f *facts) { f.lost++ }) }
func (f *facts) reenter() { f.set(func(f *facts) { f.reentered = true }) }

// outside records that key was written outside of the writer's own Hold, under no token.
func (f *facts) outside(key any, when outside) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range slices.Backward(f.all) {
		if t.key == key {
			t.outside = when
			return
		}
	}
}

// under records that key was written under the number n.
func (f *facts) under(n int64, key any) {
	_, byTracer := key.(traced)
	f.set(func(f *facts) {
		f.numbers = append(f.numbers, n)
		if byTracer {
			return
		}
		f.refusedLast = false
		f.observed = f.observed || slices.ContainsFunc(f.refused, func(err error) bool {
			var stale *guard.StaleError
			return errors.As(err, &stale) && stale.Token.Number == n
		})
	})
}

// swallows reports whether a guard refused after the last write that one admitted.
func (f *facts) swallows() bool { return f.is(func(f *facts) bool { return f.refusedLast }) }

// drops reports whether a COMMIT was not sent, and the writer's error was that the
// outcome is unknown.
func (f *facts) drops() bool { return f.is(func(f *facts) bool { return f.dropped }) }

// observes reports whether a guard refused a token and the write was made anyway.
func (f *facts) observes() bool { return f.is(func(f *facts) bool { return f.observed }) }

// have adds the number of a token that the writer has acquired or minted.
func (f *facts) have(n int64) { f.set(func(f *facts) { f.own = append(f.own, n) }) }

// had reports whether the writer has had a token of the number n.
func (f *facts) had(n int64) bool {
	return f.is(func(f *facts) bool { return slices.Contains(f.own, n) })
}

// misnamed returns the resource that the writer minted for, if it differs from this one.
func (f *facts) misnamed(resource string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mintedAs) == 0 || slices.Contains(f.mintedAs, resource) {
		return ""
	}
	return f.mintedAs[0]
}

// evictable reports whether the writer is inside a transaction that the server ends if it
// is idle for long.
func (f *facts) evictable() bool {
	return f.is(func(f *facts) bool {
		return f.idles && slices.ContainsFunc(f.all, func(t *transaction) bool { return t.end == "" && t.admits })
	})
}

// some reports whether there is such a transaction.
func (f *facts) some(is func(*transaction) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.all, is)
}

// finish records that the unit of work has ended. A transaction that is still open has
// outlived it.
func (f *facts) finish() {
	f.set(func(f *facts) {
		f.done = true
		for _, t := range f.all {
			t.late = t.late || t.end == ""
		}
	})
}

// refusals returns the errors by which guards have refused.
func (f *facts) refusals() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refused)
}

// wroteUnder returns the numbers of the tokens of writes.
func (f *facts) wroteUnder() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.numbers)
}

// asked reports whether a guard has admitted the writer.
func (f *facts) asked() bool { return f.is(func(f *facts) bool { return f.admitted }) }

// mints reports whether the writer has minted a number for its own lock.
func (f *facts) mints() bool { return f.is(func(f *facts) bool { return f.minted }) }

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

// quoted returns the writing statement of t in a form for a sentence, or "".
func (t *transaction) quoted() string {
	for _, sql := range t.sent {
		if written.MatchString(sql) {
			return quote(sql)
		}
	}
	return ""
}

// statement returns the writing statement of t as quoted does, or the last statement if
// none is recognized.
func (t *transaction) statement() string {
	if text := t.quoted(); text != "" || len(t.sent) == 0 {
		return text
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

package simulations_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
)

// book is a ledger whose guard applies each unit once. A commit may be late: its writer
// gets guard.ErrUnknown, and it is applied when a newer token, or a repeat of the unit,
// waits for it.
type book struct {
	ledger
	recorded map[string]bool
	late     []func() // commits that are on their way

	mistake mistake
}

// mistake is what a mutant of the book does wrong.
type mistake int

const (
	none mistake = iota
	notLookedUp
	lookedUpBefore // in these three the first commit is late
	recordedBefore
	recordedAfter
	keyPerTry
	keyWithoutResource
	resultKept
)

// Admit raises the mark when no older commit is on its way any more.
func (b *book) Admit(ctx context.Context, tok token.Token) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrive()
	return b.marks.Admit(ctx, tok)
}

// arrive applies the late commits.
func (b *book) arrive() {
	for _, commit := range b.late {
		commit()
	}
	b.late = nil
}

// has reports whether a unit is recorded.
func (b *book) has(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recorded[name]
}

func (b *book) put(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recorded[name] = true
}

// once does the unit named of the resource once.
func (b *book) once(ctx context.Context, unit, of string, isLate bool) error {
	tok, err := token.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	name := of + " " + unit
	switch b.mistake {
	case keyPerTry:
		name += " " + rand.Text()
	case keyWithoutResource:
		name = unit
	case lookedUpBefore, recordedAfter:
		if b.has(name) {
			return nil
		}
	case recordedBefore:
		if b.has(name) {
			return nil
		}
		b.put(name)
	}
	seen := b.read()
	simulations.Failpoint(ctx, "computed")
	if err := b.write(ctx, tok, name, of, seen+1, isLate); err != nil || b.mistake != recordedAfter {
		return err
	}
	simulations.Failpoint(ctx, "written")
	b.put(name)
	return nil
}

// write compares, records and writes in one step, as a transaction does.
func (b *book) write(ctx context.Context, tok token.Token, name, of string, units int, isLate bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	apart := b.mistake == recordedBefore || b.mistake == recordedAfter
	if err := b.marks.Admit(ctx, tok); err != nil {
		if b.recorded[name] && b.mistake != notLookedUp && b.mistake != lookedUpBefore && !apart {
			return nil
		}
		return err
	}
	b.arrive()
	if b.recorded[name] && !apart {
		return nil
	}
	commit := func() {
		b.recorded[name] = b.recorded[name] || !apart
		if of == resource {
			b.units = units
		}
	}
	if isLate {
		b.late = append(b.late, commit)
		return guard.ErrUnknown
	}
	commit()
	return nil
}

// try repeats the unit three times, after any error but a refusal.
func (b *book) try(ctx context.Context, unit string) (err error) {
	var result *int
	for n := range 3 {
		if err = nil; b.mistake == keyWithoutResource {
			err = b.once(ctx, unit, "account/7", false)
		}
		if b.mistake == resultKept && n == 0 {
			seen := b.read()
			result = &seen
		}
		if err == nil {
			err = b.once(ctx, unit, resource, n == 0 && b.mistake <= lookedUpBefore)
		}
		switch {
		case err == nil, result != nil:
			return nil
		case errors.Is(err, guard.ErrStale):
			return err
		}
	}
	return err
}

func (b *book) subject() simulations.Subject {
	s := b.ledger.subject()
	s.Claim, s.Do, s.DoOnce = b.Admit, nil, b.try
	return s
}

// eachItsOwn makes each writer do a unit of its own.
func (b *book) eachItsOwn(s simulations.Subject) simulations.Subject {
	s.Do, s.DoOnce = func(ctx context.Context) error { return b.try(ctx, rand.Text()) }, nil
	return s
}

func newBook(m mistake) *book {
	return &book{ledger: ledger{marks: new(guard.Memory)}, recorded: map[string]bool{}, mistake: m}
}

func runOnceInMemory(t *testing.T, try scope) {
	for name, own := range map[string]bool{"one unit": false, "units of their own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBook(none)
				s := b.subject()
				if own {
					s = b.eachItsOwn(s)
				}
				require.NoError(t, simulations.Check(t, try(s)))
			})
		})
	}
}

// The mutants of a guard that applies units once.
func TestMutantsOfOnceAreCaught(t *testing.T) {
	t.Parallel()
	for name, mutant := range map[string]struct {
		mistake mistake
		own     bool // each writer does a unit of its own
		rule    string
		says    string
	}{
		"not looked up after the refusal":                          {notLookedUp, true, "trace", "more were refused or failed"},
		"looked up before the refusal, while a commit is late":     {lookedUpBefore, true, "trace", "more were refused or failed"},
		"recorded in a step before the write":                      {recordedBefore, false, "once", lost},
		"recorded in a step after the write":                       {recordedAfter, false, "once", twice},
		"a key for each try":                                       {keyPerTry, false, "once", twice},
		"a key without the resource":                               {keyWithoutResource, false, "once", lost},
		"the result of a try that was not applied":                 {resultKept, false, "once", lost},
		"the result of a try that was not applied, of each writer": {resultKept, true, "once", "acknowledged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBook(mutant.mistake)
				s := b.subject()
				if mutant.own {
					s = b.eachItsOwn(s)
				}
				require.ErrorContains(t, breaks(t, s, mutant.rule), mutant.says)
			})
		})
	}
}

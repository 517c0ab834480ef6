package guardtest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/token"
)

const (
	first         = "a resource without a mark admits every complete token"
	greater       = "a greater number is admitted"
	lesser        = "a lesser number is refused"
	again         = "the mark's own holder is admitted again"
	collision     = "an equal number of another holder is refused"
	numeric       = "numbers are compared as numbers"
	apart         = "resources have marks of their own"
	remembered    = "marks are not forgotten"
	unchanged     = "a refusal changes nothing"
	reported      = "a refusal is a StaleError with the token and the mark"
	incomplete    = "an incomplete token is refused with its own error"
	cancelled     = "an ended context is no refusal and lowers no mark"
	resourceBytes = "resources are compared byte by byte"
	holderBytes   = "holders are compared byte by byte"
	whole         = "names are kept whole"
	oneStep       = "compare and raise are one step"
	spurious      = "contention refuses only stale tokens"
)

// fault is a mistake. breaks are all rules that catch it. In a race any fault may show,
// so the two rules about races count only if breaks contains them.
type fault struct {
	name   string
	breaks []string
	apply  func(m *mutant)
}

var mutants = slices.Concat(orderFaults, stateFaults, nameFaults, answerFaults)

// mutant is a correct store made of parts, so that one part can be broken.
type mutant struct {
	mu    sync.Mutex
	marks map[string]guard.Mark

	complete func(tok token.Token) error
	key      func(resource string) string
	admits   func(mark guard.Mark, tok token.Token) bool
	between  func() // runs between the comparison and the raise
	raised   func(key string)
	refused  func(key string, tok token.Token)
	answer   func(err error) error
	enter    func(ctx context.Context, tok token.Token) error
}

func newMutant() *mutant {
	return &mutant{
		marks:    map[string]guard.Mark{},
		complete: token.Token.Validate,
		key:      func(resource string) string { return resource },
		admits:   func(mark guard.Mark, tok token.Token) bool { return mark.Admits(tok) == nil },
		between:  func() {},
		raised:   func(string) {},
		refused:  func(string, token.Token) {},
		answer:   func(err error) error { return err },
		enter:    func(ctx context.Context, _ token.Token) error { return ctx.Err() },
	}
}

func (m *mutant) Admit(ctx context.Context, tok token.Token) error {
	if err := m.complete(tok); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(ctx, tok); err != nil {
		return err
	}
	key := m.key(tok.Resource)
	mark, has := m.marks[key]
	if has && !m.admits(mark, tok) {
		m.refused(key, tok)
		return m.answer(&guard.StaleError{Token: tok, Mark: mark})
	}
	m.between()
	m.marks[key] = guard.Mark{Number: tok.Number, Holder: tok.Holder}
	m.raised(key)
	return nil
}

var nameFaults = []fault{
	{"one mark for each kind", []string{apart, resourceBytes, whole}, func(m *mutant) {
		m.key = func(resource string) string { kind, _, _ := strings.Cut(resource, "/"); return kind }
	}},
	{"resources without case", []string{resourceBytes}, keyed(strings.ToLower)},
	{"resources without trailing spaces", []string{resourceBytes}, keyed(func(s string) string { return strings.TrimRight(s, " ") })},
	{"resources cut at 191 bytes", []string{whole}, keyed(func(s string) string { return s[:min(len(s), 191)] })},
	{"resources with doubled quotes", []string{resourceBytes}, keyed(func(s string) string { return strings.ReplaceAll(s, "''", "'") })},
	{"holders without case", []string{holderBytes}, sameHolder(strings.EqualFold)},
	{"holders without trailing spaces", []string{holderBytes}, sameHolder(func(a, b string) bool {
		return strings.TrimRight(a, " ") == strings.TrimRight(b, " ")
	})},
	{"holders by prefix", []string{holderBytes}, sameHolder(strings.HasPrefix)},
	{"holders cut at 191 bytes", []string{whole}, sameHolder(func(a, b string) bool {
		return a[:min(len(a), 191)] == b[:min(len(b), 191)]
	})},
}

func sameHolder(same func(a, b string) bool) func(*mutant) {
	return func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool {
			return tok.Number > mark.Number || tok.Number == mark.Number && same(tok.Holder, mark.Holder)
		}
	}
}

func keyed(key func(string) string) func(*mutant) { return func(m *mutant) { m.key = key } }

var answerFaults = []fault{
	// hazard G16
	{"incomplete tokens", []string{incomplete}, func(m *mutant) {
		m.complete = func(token.Token) error { return nil }
		m.admits = func(mark guard.Mark, tok token.Token) bool {
			return tok.Number > mark.Number || tok.Number == mark.Number && tok.Holder == mark.Holder
		}
	}},
	// hazard G16
	{"a token without a holder", []string{incomplete}, func(m *mutant) {
		m.complete = func(tok token.Token) error {
			if tok.Holder == "" {
				tok.Holder = "?"
			}
			return tok.Validate()
		}
	}},
	{"an incomplete token is called stale", []string{incomplete}, func(m *mutant) {
		m.complete = func(tok token.Token) error {
			if tok.Validate() != nil {
				return &guard.StaleError{Token: tok}
			}
			return nil
		}
	}},
	{"a refusal without a type", []string{reported}, func(m *mutant) {
		m.answer = func(error) error { return errors.New("stale") }
	}},
	{"a refusal without a mark", []string{reported}, func(m *mutant) {
		m.answer = func(err error) error { return &guard.StaleError{Token: staleToken(err)} }
	}},
	{"a refusal without a token", []string{reported}, func(m *mutant) {
		m.answer = func(err error) error {
			var stale *guard.StaleError
			errors.As(err, &stale)
			return &guard.StaleError{Mark: stale.Mark}
		}
	}},
	{"an ended context is called stale", []string{cancelled}, func(m *mutant) {
		m.enter = func(ctx context.Context, tok token.Token) error {
			if ctx.Err() != nil {
				return &guard.StaleError{Token: tok, Mark: m.marks[tok.Resource]}
			}
			return nil
		}
	}},
	{"an ended context forgets the mark", []string{cancelled}, func(m *mutant) {
		m.enter = func(ctx context.Context, tok token.Token) error {
			if ctx.Err() != nil {
				delete(m.marks, tok.Resource)
			}
			return ctx.Err()
		}
	}},
}

func staleToken(err error) token.Token {
	var stale *guard.StaleError
	errors.As(err, &stale)
	return stale.Token
}

var orderFaults = []fault{
	// hazard G4
	{"strict less-than", []string{again}, func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool { return mark.Number < tok.Number }
	}},
	// hazard G4
	{"no comparison of holders", []string{collision, holderBytes, whole, reported}, func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool { return mark.Number <= tok.Number }
	}},
	// hazard G5
	{"equality instead of order", []string{greater, numeric}, func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool {
			return mark == guard.Mark{Number: tok.Number, Holder: tok.Holder}
		}
	}},
	// hazard G14
	{"comparison of text", []string{numeric}, comparing(func(a, b int64) bool {
		return strconv.FormatInt(a, 10) < strconv.FormatInt(b, 10)
	})},
	{"comparison in 32 bits", []string{numeric}, comparing(func(a, b int64) bool { return int32(a) < int32(b) })},
	{"comparison of floats", []string{numeric}, comparing(func(a, b int64) bool { return float32(a) < float32(b) })},
	{"a holder's older number", []string{lesser}, func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool {
			return tok.Holder == mark.Holder || tok.Number > mark.Number
		}
	}},
	{"no token is refused", []string{lesser, collision, numeric, remembered, reported, cancelled, resourceBytes, holderBytes, whole}, func(m *mutant) {
		m.admits = func(guard.Mark, token.Token) bool { return true }
		m.enter = func(context.Context, token.Token) error { return nil }
	}},
	{"no mark, no admission", guardtest.Rules(), func(m *mutant) {
		m.enter = func(_ context.Context, tok token.Token) error {
			if _, has := m.marks[tok.Resource]; !has {
				return &guard.StaleError{Token: tok}
			}
			return nil
		}
	}},
}

func comparing(less func(a, b int64) bool) func(*mutant) {
	return func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool {
			return less(mark.Number, tok.Number) || mark.Number == tok.Number && mark.Holder == tok.Holder
		}
	}
}

var stateFaults = []fault{
	{"a refusal lowers the mark", []string{unchanged}, func(m *mutant) {
		m.refused = func(key string, tok token.Token) { m.marks[key] = guard.Mark{Number: tok.Number, Holder: tok.Holder} }
	}},
	{"a refusal forgets the mark", []string{unchanged, cancelled}, func(m *mutant) {
		m.refused = func(key string, _ token.Token) { delete(m.marks, key) }
		m.enter = func(context.Context, token.Token) error { return nil }
	}},
	{"a refusal raises the mark", []string{unchanged}, func(m *mutant) {
		m.refused = func(key string, _ token.Token) {
			m.marks[key] = guard.Mark{Number: m.marks[key].Number + 1, Holder: "?"}
		}
	}},
	{"a collision takes the mark over", []string{unchanged}, func(m *mutant) {
		m.refused = func(key string, tok token.Token) {
			if mark := m.marks[key]; mark.Number == tok.Number {
				m.marks[key] = guard.Mark{Number: mark.Number, Holder: tok.Holder}
			}
		}
	}},
	// hazard G10
	{"a cache that evicts", []string{remembered}, func(m *mutant) {
		var used []string
		m.raised = func(key string) {
			if used = append(used, key); len(used) > 200 {
				delete(m.marks, used[0])
				used = used[1:]
			}
		}
	}},
	// hazard G1
	{"compare, then raise", []string{oneStep}, func(m *mutant) {
		m.between = func() { pause(m) }
	}},
	{"refuses a caller that would have to wait", []string{spurious}, func(m *mutant) {
		busy := false
		m.enter = func(ctx context.Context, tok token.Token) error {
			if busy {
				return &guard.StaleError{Token: tok, Mark: m.marks[tok.Resource]}
			}
			return ctx.Err()
		}
		m.between = func() {
			busy = true
			pause(m)
			busy = false
		}
	}},
}

// pause lets all other callers run.
func pause(m *mutant) {
	m.mu.Unlock()
	time.Sleep(time.Second)
	m.mu.Lock()
}

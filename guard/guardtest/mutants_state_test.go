package guardtest_test

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

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
	{"refuses whoever would have to wait", []string{spurious}, func(m *mutant) {
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

// pause lets the others in.
func pause(m *mutant) {
	m.mu.Unlock()
	time.Sleep(100 * time.Microsecond)
	m.mu.Lock()
}

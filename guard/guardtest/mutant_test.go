package guardtest_test

import (
	"context"
	"sync"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// mutant is a right store in parts, so that one part can be broken.
type mutant struct {
	mu    sync.Mutex
	marks map[string]guard.Mark

	complete func(tok token.Token) error
	key      func(resource string) string
	admits   func(mark guard.Mark, tok token.Token) bool
	between  func() // the comparison and the raise
	raised   func(key string)
	refused  func(key string, tok token.Token)
	answer   func(err error) error
	enter    func(ctx context.Context, tok token.Token) error
}

func newMutant() *mutant {
	return &mutant{
		marks:    map[string]guard.Mark{},
		complete: token.Token.Check,
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

package guard

import (
	"context"

	"github.com/fencepost/fencepost/token"
)

// Mark is the highest token that a guard has admitted for a resource: its number and its
// holder. The zero Mark means that no token was admitted; it admits every complete token.
type Mark struct {
	Number int64
	Holder string
}

// Admits returns nil if tok may write while the mark is m. If not, it returns a
// [*StaleError]. If tok is incomplete, it returns an error that is token.ErrInvalid,
// since a token without a holder would match every holder.
//
// The rule compares the order of numbers. A test for equality would fail: a new holder
// that has not written yet has not raised the mark. If the numbers are equal, the rule
// compares the holders: `<` alone would refuse a holder's second write, and `<=` alone
// would admit the write of another holder with the same number.
func (m Mark) Admits(tok token.Token) error {
	if err := tok.Validate(); err != nil {
		return err
	}
	if tok.Number > m.Number || tok.Number == m.Number && tok.Holder == m.Holder {
		return nil
	}
	return &StaleError{Token: tok, Mark: m}
}

// Raised returns the mark after tok is admitted. If m does not admit tok, Raised returns
// m and the error of [Mark.Admits]. An implementation of [Store] must read the old mark
// and store the new one in one atomic step.
func (m Mark) Raised(tok token.Token) (Mark, error) {
	if err := m.Admits(tok); err != nil {
		return m, err
	}
	return Mark{Number: tok.Number, Holder: tok.Holder}, nil
}

// Store keeps marks. Package guardtest tests an implementation against this contract.
type Store interface {
	// Admit compares tok with the mark of its resource and raises the mark, in one atomic
	// step, by the rule of [Mark.Admits]. It must be safe for concurrent use. If it
	// returns nil, the raised mark must be as durable as the resource. If it returns a
	// [*StaleError], nothing may have changed. If tok is incomplete, it must return an
	// error that is token.ErrInvalid. After any other error, the mark may be unchanged or
	// raised, but never lower.
	Admit(ctx context.Context, tok token.Token) error
}

// Identified is a Store with an identity. In package httpguard, middlewares whose stores
// have equal identities share one table of requests in flight, so that a request with a
// newer token waits for an older request in any of their handlers.
type Identified interface {
	Store
	// Identity returns a comparable value. Stores that keep the same marks return
	// equal values. A store that wraps another returns the wrapped store's identity.
	Identity() any
}

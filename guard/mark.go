package guard

import "github.com/fencepost/fencepost/token"

// Mark is the highest token a guard has admitted for a resource. The zero
// Mark, of a resource nobody has written yet, admits every complete token.
type Mark struct {
	Number int64
	Holder string
}

// Admits returns nil if tok may write where the mark stands at m, a
// [*StaleError] if not, and tok's own error if it is incomplete: a token
// without a holder would pass for anybody's.
//
// Order decides, not equality, since a holder may never have written. The
// holder decides between equal numbers, since `<` alone would refuse a
// holder's second write and `<=` alone would admit an impostor's.
func (m Mark) Admits(tok token.Token) error {
	if err := tok.Check(); err != nil {
		return err
	}
	if tok.Number > m.Number || tok.Number == m.Number && tok.Holder == m.Holder {
		return nil
	}
	return &StaleError{Token: tok, Mark: m}
}

// Raised returns the mark after tok was admitted, or m as it was and what
// [Mark.Admits] says against it. A [Store] of your own must compare and store
// what this returns in one atomic step.
func (m Mark) Raised(tok token.Token) (Mark, error) {
	if err := m.Admits(tok); err != nil {
		return m, err
	}
	return Mark{Number: tok.Number, Holder: tok.Holder}, nil
}

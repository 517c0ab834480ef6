package guardtest_test

import (
	"context"
	"strconv"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/token"
)

var orderFaults = []fault{
	// hazard G4
	{"strict less-than", []string{again}, func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool { return mark.Number < tok.Number }
	}},
	// hazard G4
	{"no comparison of holders", []string{collision, holderBytes, whole, told}, func(m *mutant) {
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
	{"nobody is refused", []string{lesser, collision, numeric, remembered, told, cancelled, resourceBytes, holderBytes, whole}, func(m *mutant) {
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

package token

import "reflect"

// innermost returns what iss wraps, and that wraps, to the end. It passes over
// what cannot be compared: two wrappers of such a one are two issuers, as they
// are without an Unwrap.
func innermost(iss Issuer) Issuer {
	found := iss
	for {
		wrapper, ok := iss.(interface{ Unwrap() Issuer })
		if !ok {
			return found
		}
		if iss = wrapper.Unwrap(); iss == nil {
			return found
		}
		if isComparable(iss) {
			found = iss
		}
	}
}

// isComparable reports whether iss can be compared, as an issuer should: of two
// that cannot, nobody can say that they are the same.
func isComparable(iss Issuer) bool { return reflect.ValueOf(iss).Comparable() }

func same(a, b Issuer) bool { return isComparable(a) && isComparable(b) && a == b }

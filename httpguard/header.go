package httpguard

import (
	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/field"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

const (
	// Header is the field that carries tokens.
	Header = "Fencing-Token"
	// MaxBytes is the greatest length of the field's value, all of its lines
	// taken together.
	MaxBytes = 8 << 10
	// MaxMembers is the greatest number of tokens in one field.
	MaxMembers = 64
)

// Parse returns the tokens of the field's lines, r.Header[Header] say, in
// their order. No lines, or a single empty one, are no tokens.
//
// Several lines are one List (RFC 9651 §4.2). Each member is an Integer of 1
// to fifteen digits with the parameters r (resource) and h (holder), which are
// Strings or Display Strings, and may be k (String), x (Integer from 1) and s
// (Byte Sequence), which are a seal: s and k stand together, and x only beside
// them. Other parameters are passed over, and of two with one name the last
// counts, as the RFC has it. Anything else is a [*HeaderError], and so are two
// tokens of one resource, equal ones too: one of the two would be judged and
// the other one used. The error is for the whole field: there are no tokens
// beside it.
//
// Seals are checked for their form alone, and dropped: see [ParseSealed].
func Parse(values []string) ([]token.Token, error) {
	var room [4]seal.Sealed
	all, err := appendSealed(room[:0], values)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	toks := make([]token.Token, len(all))
	for i := range all {
		toks[i] = all[i].Token
	}
	return toks, nil
}

// ParseSealed is [Parse] with the seals. They are not verified: that is for a
// [seal.Ring]. A code of the wrong length is no malformed member but a seal
// that no ring accepts.
func ParseSealed(values []string) ([]seal.Sealed, error) {
	return appendSealed(nil, values)
}

// appendSealed uses the room of dst, which is empty. The result is nil where
// there are no tokens.
func appendSealed(dst []seal.Sealed, values []string) ([]seal.Sealed, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if size(values) > MaxBytes {
		return nil, tooLong()
	}
	if all, ok := scan(dst, values); ok {
		return all, nil
	}
	return read(dst, values)
}

// read is appendSealed by the library, for every form that the RFC allows.
func read(dst []seal.Sealed, values []string) ([]seal.Sealed, error) {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return nil, &HeaderError{Rule: "must be a List of RFC 9651", Err: err}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > MaxMembers {
		return nil, tooMany()
	}
	for i, member := range list {
		s, err := readMember(member)
		if err != nil {
			return nil, &HeaderError{Member: i + 1, Rule: rule(err), Err: err}
		}
		if has(dst, s.Token.Resource) {
			return nil, &HeaderError{Member: i + 1, Rule: onlyOne}
		}
		dst = append(dst, s)
	}
	return dst, nil
}

func readMember(member httpsfv.Member) (seal.Sealed, error) {
	item, ok := member.(httpsfv.Item)
	if !ok {
		return seal.Sealed{}, errInnerList
	}
	number, resource, holder, err := field.Parts(item)
	if err != nil {
		return seal.Sealed{}, err
	}
	tok, err := token.New(resource, number, holder)
	if err != nil {
		return seal.Sealed{}, err
	}
	params, err := field.SealOf(item)
	if err != nil {
		return seal.Sealed{}, err
	}
	return seal.Sealed{Token: tok, Key: params.Key, Until: params.Until, Code: params.Code}, nil
}

// size counts the lines as they will be joined: with a comma and a space.
func size(values []string) int {
	n := 0
	for _, value := range values {
		n += len(value) + len(", ")
	}
	return n - len(", ")
}

func has(all []seal.Sealed, resource string) bool {
	for i := range all {
		if all[i].Token.Resource == resource {
			return true
		}
	}
	return false
}

func find(toks []token.Token, resource string) (token.Token, bool) {
	for _, tok := range toks {
		if tok.Resource == resource {
			return tok, true
		}
	}
	return token.Token{}, false
}

package httpguard

import (
	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/field"
	"github.com/fencepost/fencepost/token"
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
// Strings or Display Strings. Other parameters are passed over, and of two
// with one name the last counts, as the RFC has it. Anything else is a
// [*HeaderError], and so are two tokens of one resource, equal ones too: one
// of the two would be judged and the other one used. The error is for the
// whole field: there are no tokens beside it.
func Parse(values []string) ([]token.Token, error) {
	if size(values) > MaxBytes {
		return nil, tooLong()
	}
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
	toks := make([]token.Token, 0, len(list))
	for i, member := range list {
		tok, err := parseMember(member)
		if err != nil {
			return nil, &HeaderError{Member: i + 1, Rule: rule(err), Err: err}
		}
		if _, twice := find(toks, tok.Resource); twice {
			return nil, &HeaderError{Member: i + 1, Rule: onlyOne}
		}
		toks = append(toks, tok)
	}
	return toks, nil
}

// Format returns the value that [Parse] reads back as toks. Of no tokens it is
// empty, and the field must be left out (RFC 9651 §3.1). An incomplete token,
// two of one resource, and more than MaxMembers or MaxBytes are a
// [*HeaderError].
func Format(toks ...token.Token) (string, error) {
	if len(toks) > MaxMembers {
		return "", tooMany()
	}
	list := make(httpsfv.List, len(toks))
	for i, tok := range toks {
		if err := tok.Check(); err != nil {
			return "", &HeaderError{Member: i + 1, Rule: rule(err), Err: err}
		}
		if _, twice := find(toks[:i], tok.Resource); twice {
			return "", &HeaderError{Member: i + 1, Rule: onlyOne}
		}
		list[i] = field.Item(tok.Number, tok.Resource, tok.Holder)
	}
	text, err := httpsfv.Marshal(list)
	if err != nil {
		return "", &HeaderError{Rule: "must be a List of RFC 9651", Err: err}
	}
	if len(text) > MaxBytes {
		return "", tooLong()
	}
	return text, nil
}

func parseMember(member httpsfv.Member) (token.Token, error) {
	item, ok := member.(httpsfv.Item)
	if !ok {
		return token.Token{}, errInnerList
	}
	number, resource, holder, err := field.Parts(item)
	if err != nil {
		return token.Token{}, err
	}
	return token.New(resource, number, holder)
}

// size counts the lines as they will be joined: with a comma and a space.
func size(values []string) int {
	n := 0
	for _, value := range values {
		n += len(value) + len(", ")
	}
	return n - len(", ")
}

func find(toks []token.Token, resource string) (token.Token, bool) {
	for _, tok := range toks {
		if tok.Resource == resource {
			return tok, true
		}
	}
	return token.Token{}, false
}

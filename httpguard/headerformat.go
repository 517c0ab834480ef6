package httpguard

import (
	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/field"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// Format returns the value that [Parse] reads back as toks. Of no tokens it is
// empty, and the field must be left out (RFC 9651 §3.1). An incomplete token,
// two of one resource, and more than MaxMembers or MaxBytes are a
// [*HeaderError].
func Format(toks ...token.Token) (string, error) {
	if len(toks) > MaxMembers {
		return "", tooMany()
	}
	all := make([]seal.Sealed, len(toks))
	for i, tok := range toks {
		all[i].Token = tok
	}
	return FormatSealed(all...)
}

// FormatSealed is [Format] with the seals, which [ParseSealed] reads back. A
// token without a seal may stand beside others. Parts of a seal that cannot be
// sent (a Code without a Key, a Key that is no id, an Until that is negative or
// has more than fifteen digits) are a [*HeaderError]; whether a seal is right is
// not asked.
func FormatSealed(all ...seal.Sealed) (string, error) {
	if len(all) > MaxMembers {
		return "", tooMany()
	}
	list := make(httpsfv.List, len(all))
	for i, s := range all {
		item, err := writeMember(s)
		if err != nil {
			return "", &HeaderError{Member: i + 1, Rule: rule(err), Err: err}
		}
		if has(all[:i], s.Token.Resource) {
			return "", &HeaderError{Member: i + 1, Rule: onlyOne}
		}
		list[i] = item
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

func writeMember(s seal.Sealed) (httpsfv.Item, error) {
	if err := s.Token.Check(); err != nil {
		return httpsfv.Item{}, err
	}
	params := field.Seal{Key: s.Key, Until: s.Until, Code: s.Code}
	if err := params.Check(); err != nil {
		return httpsfv.Item{}, err
	}
	item := field.Item(s.Token.Number, s.Token.Resource, s.Token.Holder)
	params.AddTo(item)
	return item, nil
}

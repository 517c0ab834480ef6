package token

import (
	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/field"
)

// MarshalText returns the token as an Item of RFC 9651 §3.3, the form in which
// it also stands in the Fencing-Token header:
//
//	179516977481431;r="account/42";h="billing:7:1:c2f1"
//
// The number is an Integer. Resource and holder are Strings, or Display
// Strings (§3.3.8) where they are not plain ASCII. In JSON the token is thus a
// string, which no reader rounds. An incomplete token is an [*InvalidError].
func (t Token) MarshalText() ([]byte, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	text, err := httpsfv.Marshal(field.Item(t.Number, t.Resource, t.Holder))
	return []byte(text), err
}

// UnmarshalText reads what [Token.MarshalText] writes. Parameters it does not
// know are passed over. Where the error is not nil, an [*InvalidError], the
// token is unchanged.
func (t *Token) UnmarshalText(text []byte) error {
	item, err := httpsfv.UnmarshalItem([]string{string(text)})
	if err != nil {
		return notText(text, err)
	}
	number, resource, holder, err := field.Parts(item)
	if err != nil {
		return notText(text, err)
	}
	tok, err := New(resource, number, holder)
	if err != nil {
		return err
	}
	*t = tok
	return nil
}

func notText(text []byte, err error) error {
	return &InvalidError{Part: "text", Value: string(text[:min(len(text), MaxName)]), Rule: err.Error()}
}

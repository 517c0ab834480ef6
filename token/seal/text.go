package seal

import (
	"fmt"

	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/field"
	"github.com/fencepost/fencepost/token"
)

// MarshalText returns the token and its seal as an Item of RFC 9651 §3.3, which
// is what stands in the Fencing-Token header: the text of the token with the
// parameters k (String), x (Integer, if the seal has an end) and s (Byte
// Sequence). An unsealed token has its own text. An incomplete token is a
// [*token.InvalidError], and parts of a seal that cannot be written are
// [token.ErrInvalid].
//
// The text is the whole of the seal: who can read it can use the token.
func (s Sealed) MarshalText() ([]byte, error) {
	if err := s.Token.Check(); err != nil {
		return nil, err
	}
	params := field.Seal{Key: s.Key, Until: s.Until, Code: s.Code}
	if err := params.Check(); err != nil {
		return nil, malformed(err)
	}
	item := field.Item(s.Token.Number, s.Token.Resource, s.Token.Holder)
	params.AddTo(item)
	text, err := httpsfv.Marshal(item)
	return []byte(text), err
}

// UnmarshalText reads what [Sealed.MarshalText] writes, and the text of a token
// without a seal. It does not verify. Parameters it does not know are passed
// over; s without k, k or x without s, and values that are not as above are
// [token.ErrInvalid], and s is then unchanged. The error tells no value of a
// seal.
func (s *Sealed) UnmarshalText(text []byte) error {
	item, err := httpsfv.UnmarshalItem([]string{string(text)})
	if err != nil {
		return malformed(err)
	}
	number, resource, holder, err := field.Parts(item)
	if err != nil {
		return malformed(err)
	}
	tok, err := token.New(resource, number, holder)
	if err != nil {
		return err
	}
	params, err := field.SealOf(item)
	if err != nil {
		return malformed(err)
	}
	*s = Sealed{Token: tok, Key: params.Key, Until: params.Until, Code: params.Code}
	return nil
}

func malformed(err error) error {
	return fmt.Errorf("seal: text of a token: %w (%w)", err, token.ErrInvalid)
}

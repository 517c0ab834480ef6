package structfield

import (
	"crypto/sha256"
	"errors"

	"github.com/dunglas/httpsfv"
)

const (
	maxID      = 64
	maxInteger = 999_999_999_999_999 // RFC 9651 §3.3.1
)

// Signature is the signature of an Item: the parameters k, x and s. The zero Signature
// means that there is none.
type Signature struct {
	Key   string            // k: the id of the key, a String
	Until int64             // x: in Unix seconds, an Integer; 0: absent
	Code  [sha256.Size]byte // s: a Byte Sequence
}

var (
	errNoKey  = errors.New("must have the parameter k beside s")
	errNoCode = errors.New("must have the parameter s beside k or x")
	errKey    = errors.New("parameter k must be a String of 1 to 64 letters, digits, dots, underscores or hyphens")
	errUntil  = errors.New("parameter x must be an Integer of 1 to 999999999999999")
	errCode   = errors.New("parameter s must be a Byte Sequence")
)

// Validate returns nil if s is zero or can be part of an Item.
func (s Signature) Validate() error {
	switch {
	case s == Signature{}:
		return nil
	case s.Key == "":
		return errNoKey
	case !IsID(s.Key):
		return errKey
	case s.Until < 0 || s.Until > maxInteger:
		return errUntil
	}
	return nil
}

// AddTo sets the parameters of s in item, unless s is zero.
func (s Signature) AddTo(item httpsfv.Item) {
	if s.Key == "" {
		return
	}
	item.Params.Add("k", s.Key)
	if s.Until != 0 {
		item.Params.Add("x", s.Until)
	}
	item.Params.Add("s", s.Code[:])
}

// SignatureOf returns the signature of item. If its code has the wrong length, Code is
// zero, which no key produces.
func SignatureOf(item httpsfv.Item) (Signature, error) {
	k, hasKey := item.Params.Get("k")
	x, hasUntil := item.Params.Get("x")
	code, hasCode := item.Params.Get("s")
	switch {
	case !hasKey && !hasUntil && !hasCode:
		return Signature{}, nil
	case !hasCode:
		return Signature{}, errNoCode
	case !hasKey:
		return Signature{}, errNoKey
	}
	var s Signature
	var ok bool
	if s.Key, ok = k.(string); !ok || !IsID(s.Key) {
		return Signature{}, errKey
	}
	if s.Until, ok = x.(int64); hasUntil && (!ok || s.Until < 1) {
		return Signature{}, errUntil
	}
	raw, ok := code.([]byte)
	if !ok {
		return Signature{}, errCode
	}
	if len(raw) == len(s.Code) {
		copy(s.Code[:], raw)
	}
	return s, nil
}

// IsID reports whether s can be the id of a key.
func IsID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxID
}

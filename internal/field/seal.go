package field

import (
	"crypto/sha256"
	"errors"

	"github.com/dunglas/httpsfv"
)

const (
	maxID      = 64
	maxInteger = 999_999_999_999_999 // RFC 9651 §3.3.1
)

// Seal is what seals an Item: the parameters k, x and s. The zero Seal is none.
type Seal struct {
	Key   string            // k: the id of the key, a String
	Until int64             // x: in Unix seconds, an Integer; 0: not there
	Code  [sha256.Size]byte // s: a Byte Sequence
}

var (
	errNoKey  = errors.New("must have the parameter k beside s")
	errNoCode = errors.New("must have the parameter s beside k or x")
	errKey    = errors.New("parameter k must be a String of 1 to 64 letters, digits, dots, underscores or hyphens")
	errUntil  = errors.New("parameter x must be an Integer of 1 to 999999999999999")
	errCode   = errors.New("parameter s must be a Byte Sequence")
)

// Check returns nil if s is none, or can stand in an Item.
func (s Seal) Check() error {
	switch {
	case s == Seal{}:
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

// AddTo sets the parameters of s in item; none, if s is none.
func (s Seal) AddTo(item httpsfv.Item) {
	if s.Key == "" {
		return
	}
	item.Params.Add("k", s.Key)
	if s.Until != 0 {
		item.Params.Add("x", s.Until)
	}
	item.Params.Add("s", s.Code[:])
}

// SealOf returns the seal of item. A code of another length than ours is a
// seal, but nobody's: its Code is zero.
func SealOf(item httpsfv.Item) (Seal, error) {
	k, hasKey := item.Params.Get("k")
	x, hasUntil := item.Params.Get("x")
	code, hasCode := item.Params.Get("s")
	switch {
	case !hasKey && !hasUntil && !hasCode:
		return Seal{}, nil
	case !hasCode:
		return Seal{}, errNoCode
	case !hasKey:
		return Seal{}, errNoKey
	}
	var s Seal
	var ok bool
	if s.Key, ok = k.(string); !ok || !IsID(s.Key) {
		return Seal{}, errKey
	}
	if s.Until, ok = x.(int64); hasUntil && (!ok || s.Until < 1) {
		return Seal{}, errUntil
	}
	raw, ok := code.([]byte)
	if !ok {
		return Seal{}, errCode
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

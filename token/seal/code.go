package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"strconv"
	"sync"
)

// version is the first line of what is authenticated, so that a later form, or
// another use of the same secret, cannot be taken for this one.
const version = "fencepost-seal-1"

// signer makes the codes of one key.
type signer struct {
	id     string
	states sync.Pool // of *state
}

// state is kept for the next code: a new HMAC would have to digest its key
// first, and escapes to the heap, as do the lines it is given.
type state struct {
	mac   hash.Hash
	lines []byte
	code  [sha256.Size]byte
}

func newSigner(key Key) *signer {
	secret := append([]byte(nil), key.Secret...) // what the caller does with its own is its own
	return &signer{id: key.ID, states: sync.Pool{New: func() any {
		return &state{mac: hmac.New(sha256.New, secret)}
	}}}
}

// code returns the right code of what s says, whatever its Code.
func (k *signer) code(s *Sealed) [sha256.Size]byte {
	st := k.states.Get().(*state)
	st.lines = appendLines(st.lines[:0], k.id, s)
	st.mac.Reset()
	_, _ = st.mac.Write(st.lines) // never an error: hash.Hash
	st.mac.Sum(st.code[:0])
	code := st.code
	k.states.Put(st)
	return code
}

// appendLines needs no complete token. A name with a newline, which no Seal
// accepts, makes more than six lines, and six are all that was ever sealed.
func appendLines(b []byte, id string, s *Sealed) []byte {
	b = append(b, version...)
	b = append(b, '\n')
	b = append(b, id...)
	b = append(b, '\n')
	b = strconv.AppendInt(b, s.Token.Number, 10)
	b = append(b, '\n')
	b = append(b, s.Token.Resource...)
	b = append(b, '\n')
	b = append(b, s.Token.Holder...)
	b = append(b, '\n')
	if s.Until == 0 {
		return append(b, '-')
	}
	return strconv.AppendInt(b, s.Until, 10)
}

package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/structfield"
	"github.com/fencepost/fencepost/token"
)

// MinSecret is the minimum length of a secret in bytes: the length of the code, which RFC
// 2104 §3 requires.
const MinSecret = 32

var (
	errID     = errors.New("the id must be 1 to 64 of A-Z a-z 0-9 . _ -")
	errSecret = errors.New("the secret must be at least " + strconv.Itoa(MinSecret) + " bytes")
)

// Key is a secret and its id. You choose the id, which is part of every header, and must
// not reuse it for another secret. The secret must come from a random source, such as
// crypto/rand or "openssl rand -base64 32"; a password is too weak. The zero Key is
// invalid.
//
// Printing, logging or encoding a Key leaves out its Secret.
type Key struct {
	ID     string // 1 to 64 of A-Z a-z 0-9 . _ -
	Secret []byte // at least MinSecret bytes
}

// check returns an error if k is invalid. The error contains neither field.
func (k Key) check() error {
	switch {
	case !structfield.IsID(k.ID):
		return errID
	case len(k.Secret) < MinSecret:
		return errSecret
	}
	return nil
}

// String returns the id, as in "key 2026-11". An invalid id is not shown, because id and
// secret may have been swapped.
func (k Key) String() string {
	if !structfield.IsID(k.ID) {
		return "key without an id"
	}
	return "key " + k.ID
}

// GoString returns [Key.String].
func (k Key) GoString() string { return k.String() }

// Format implements [fmt.Formatter]: every verb prints String. Without it, verbs such as
// %d would print the fields.
func (k Key) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, k.String()) }

// LogValue implements [slog.LogValuer].
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns String, for a Key inside a larger value that is encoded, such as a
// configuration in a log. There is no UnmarshalText.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

var errLine = errors.New(`must be "id secret", the secret in base64 (RFC 4648 §4, with padding)`)

// ParseKeys parses keys from a file or an environment variable: one "id secret" on each
// line, the secret in base64 as "openssl rand -base64 32" prints it. It skips empty lines
// and lines that begin with #. It keeps the order, in which [New] uses the first key to
// sign. It returns no keys, and no error, for text without any; New then returns an
// error. If a line is malformed, the error has its number and nothing of its text.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		key, err := parseKey(words)
		if err != nil {
			return nil, fmt.Errorf("signature: line %d of the keys: %w", n, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parseKey(words []string) (Key, error) {
	if len(words) != 2 {
		return Key{}, errLine
	}
	secret, err := base64.StdEncoding.Strict().DecodeString(words[1])
	if err != nil {
		return Key{}, errLine
	}
	key := Key{ID: words[0], Secret: secret}
	return key, key.check()
}

var errNoKeys = errors.New("signature: a keyring needs a key")

// Keyring signs tokens and verifies signatures. It is safe for concurrent use, and must
// not be copied. The zero Keyring has no keys: Sign returns an error, and Verify rejects
// every token.
//
// Rotate keys in three steps, and complete each in every process before the next:
//
//  1. Add the new key after the old one, so that every process can verify it.
//  2. Put the new key first, so that every process signs with it.
//  3. Remove the old key when tokens signed with it are no longer needed.
type Keyring struct {
	signers atomic.Pointer[[]*signer]
}

// New returns a keyring that signs with the first key and verifies with all of them. It
// copies the secrets. It returns an error if there are no keys, if a key is invalid, or
// if two keys have the same id.
func New(keys ...Key) (*Keyring, error) {
	r := new(Keyring)
	if err := r.Replace(keys...); err != nil {
		return nil, err
	}
	return r, nil
}

// Replace replaces the keyring's keys; it returns an error in the same cases as [New],
// and then changes nothing. It is atomic: a concurrent Sign or Verify uses either all the
// old keys or all the new ones.
func (r *Keyring) Replace(keys ...Key) error {
	if len(keys) == 0 {
		return errNoKeys
	}
	signers := make([]*signer, len(keys))
	for i, key := range keys {
		if err := key.check(); err != nil {
			return fmt.Errorf("signature: key %d: %w", i+1, err)
		}
		if find(signers[:i], key.ID) != nil {
			return fmt.Errorf("signature: key %d: an earlier key has the same id", i+1)
		}
		signers[i] = newSigner(key)
	}
	r.signers.Store(&signers)
	return nil
}

// Sign signs tok until the given time, rounded down to whole seconds. The zero time means
// that the signature does not expire. Sign accepts a time in the past; that signature has
// expired. It returns a [*token.InvalidError] if tok is incomplete, [token.ErrInvalid] if
// the time is not after 1970-01-01 or exceeds [token.MaxNumber] seconds, and an error if
// the keyring has no keys.
func (r *Keyring) Sign(tok token.Token, until time.Time) (Signed, error) {
	if err := tok.Validate(); err != nil {
		return Signed{}, err
	}
	signers := r.signers.Load()
	if signers == nil {
		return Signed{}, errNoKeys
	}
	first := (*signers)[0]
	s := Signed{Token: tok, Key: first.id}
	if !until.IsZero() {
		if s.Until = until.Unix(); s.Until < 1 || s.Until > token.MaxNumber {
			return Signed{}, fmt.Errorf("%w: a signature cannot end %s", token.ErrInvalid, until.UTC().Format(time.RFC3339))
		}
	}
	s.Code = first.code(&s)
	return s, nil
}

// Verify returns nil if s has a valid signature, and otherwise an [*Error]. Its reason is
// Expired only if the signature is right. Verify reads this process's clock if s has an
// expiry, and a signature has expired once Until is reached.
func (r *Keyring) Verify(s Signed) error {
	if s.Key == "" {
		return &Error{Token: s.Token, Reason: Unsigned}
	}
	key := r.key(s.Key)
	if key == nil {
		return &Error{Token: s.Token, Key: s.Key, Reason: UnknownKey}
	}
	if code := key.code(&s); !hmac.Equal(code[:], s.Code[:]) {
		return &Error{Token: s.Token, Key: s.Key, Reason: Wrong}
	}
	if s.Until != 0 && time.Now().Unix() >= s.Until {
		return &Error{Token: s.Token, Key: s.Key, Reason: Expired}
	}
	return nil
}

// key returns the signer with id, or nil. Ids are not secret, so the comparison need not
// take constant time.
func (r *Keyring) key(id string) *signer {
	signers := r.signers.Load()
	if signers == nil {
		return nil
	}
	return find(*signers, id)
}

func find(signers []*signer, id string) *signer {
	for _, s := range signers {
		if s.id == id {
			return s
		}
	}
	return nil
}

// version is the first line of the signed text. It keeps a signature of another format,
// or another use of the same secret, from being valid here.
const version = "fencepost-signature-1"

// signer computes the codes of one key.
type signer struct {
	id     string
	states sync.Pool // of *state
}

// state is reused for the next code: a new HMAC hashes its key first, and it and the
// lines escape to the heap.
type state struct {
	mac   hash.Hash
	lines []byte
	code  [sha256.Size]byte
}

func newSigner(key Key) *signer {
	secret := append([]byte(nil), key.Secret...) // the caller may change its slice
	return &signer{id: key.ID, states: sync.Pool{New: func() any {
		return &state{mac: hmac.New(sha256.New, secret)}
	}}}
}

// code returns the right code of s. It ignores s.Code.
func (k *signer) code(s *Signed) [sha256.Size]byte {
	st := k.states.Get().(*state)
	st.lines = appendLines(st.lines[:0], k.id, s)
	st.mac.Reset()
	_, _ = st.mac.Write(st.lines) // hash.Hash: never an error
	st.mac.Sum(st.code[:0])
	code := st.code
	k.states.Put(st)
	return code
}

// appendLines does not need a valid token. A name with a newline, which Sign rejects,
// gives more than six lines, and no code was ever made for those.
func appendLines(b []byte, id string, s *Signed) []byte {
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

// Reason is why a keyring rejects a token. These four are all.
type Reason string

const (
	// Unsigned means that the token has no signature.
	Unsigned Reason = "unsigned"
	// UnknownKey means that the keyring has no key with the id.
	UnknownKey Reason = "unknown key"
	// Wrong means that the code does not match the token, the key and Until.
	Wrong Reason = "wrong"
	// Expired means that the signature is right, and that Until has passed.
	Expired Reason = "expired"
)

// Error reports why a keyring rejects a token. It is [token.ErrBadSignature]. It contains
// neither the code that was sent nor the right one.
type Error struct {
	Token  token.Token
	Key    string // Key is the id of the key, or "" for an unsigned token.
	Reason Reason
}

func (e *Error) Error() string {
	text := "signature: token " + e.Token.String()
	if e.Key != "" {
		text += ", key " + strconv.Quote(e.Key)
	}
	return text + ": " + string(e.Reason)
}

// Unwrap returns [token.ErrBadSignature].
func (e *Error) Unwrap() error { return token.ErrBadSignature }

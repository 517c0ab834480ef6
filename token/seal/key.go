package seal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/fencepost/fencepost/internal/field"
)

// MinSecret is the least length of a secret, in bytes: that of the code, as
// RFC 2104 §3 has it.
const MinSecret = 32

var (
	errID     = errors.New("the id must be 1 to 64 of A-Z a-z 0-9 . _ -")
	errSecret = errors.New("the secret must be at least " + strconv.Itoa(MinSecret) + " bytes")
)

// Key is a secret and the name it goes by. The id stands in every header; it is
// chosen by you, and never used again for another secret. The secret is from a
// random source, as crypto/rand or "openssl rand -base64 32": a password is
// none. The zero Key is incomplete.
//
// However a Key is printed, logged or encoded, its Secret is left out.
type Key struct {
	ID     string // 1 to 64 of A-Z a-z 0-9 . _ -
	Secret []byte // at least MinSecret bytes
}

// check never tells what it was given.
func (k Key) check() error {
	switch {
	case !field.IsID(k.ID):
		return errID
	case len(k.Secret) < MinSecret:
		return errSecret
	}
	return nil
}

// String returns the id, as in "key 2026-11". What cannot be an id is not shown:
// id and secret may have been swapped.
func (k Key) String() string {
	if !field.IsID(k.ID) {
		return "key without an id"
	}
	return "key " + k.ID
}

// GoString is String.
func (k Key) GoString() string { return k.String() }

// Format implements [fmt.Formatter]: every verb prints String. Some, like %d,
// would look past String into the fields.
func (k Key) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, k.String()) }

// LogValue implements [slog.LogValuer].
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns String, for a Key inside of what is encoded as a whole, as
// a configuration in a log. It cannot be read back.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

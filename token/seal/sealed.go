package seal

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Sealed is a token and the seal it came with, which may be none, and need not
// be right: [Ring.Verify] says. It is a value, comparable, and two are equal if
// all their parts are. With a zero Key and Code the token is not sealed.
type Sealed struct {
	Token token.Token
	// Key is the id of the key.
	Key string
	// Until is when the seal ends, in Unix seconds; 0 is never. The token does
	// not end by it.
	Until int64
	// Code is the HMAC. A code that came with another length is zero here: no
	// key makes that one, as far as anybody knows.
	Code [sha256.Size]byte
}

// String returns the token for people, and the key of its seal, as in
// "account/42#33 sealed by 2026-11 until 2026-11-20T09:36:14Z". It leaves out
// the code, because whoever has that can use the token: what lands in a log must
// be worth nothing. [Sealed.MarshalText] is the form that can be read back.
func (s Sealed) String() string {
	text := s.Token.String()
	if s.Key == "" {
		return text
	}
	text += " sealed by " + s.Key
	if s.Until != 0 {
		text += " until " + time.Unix(s.Until, 0).UTC().Format(time.RFC3339)
	}
	return text
}

// Format implements [fmt.Formatter]: every verb prints String, also those that
// would look past it into the fields.
func (s Sealed) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// LogValue implements [slog.LogValuer]: String again. It is for a Sealed that is
// logged by itself. A logger that encodes, like that for JSON, takes the whole
// text of MarshalText for a Sealed that is inside of something else.
func (s Sealed) LogValue() slog.Value { return slog.StringValue(s.String()) }

package seal

import (
	"strconv"

	"github.com/fencepost/fencepost/token"
)

// Reason is why a ring does not accept a token. There are these four.
type Reason string

const (
	// Unsealed means that the token came without a seal.
	Unsealed Reason = "unsealed"
	// UnknownKey means that the ring has no key of that id, or no longer.
	UnknownKey Reason = "unknown key"
	// Wrong means that the code is not that of the token, the key and the end.
	Wrong Reason = "wrong"
	// Expired means that the seal was right, until its end.
	Expired Reason = "expired"
)

// Error says why a ring does not accept a token. It is [token.ErrSeal]. It has
// no code, neither the one that came nor the right one.
type Error struct {
	Token  token.Token
	Key    string // the id of the key; empty for an unsealed token
	Reason Reason
}

func (e *Error) Error() string {
	text := "seal: token " + e.Token.String()
	if e.Key != "" {
		text += ", key " + strconv.Quote(e.Key)
	}
	return text + ": " + string(e.Reason)
}

// Unwrap returns [token.ErrSeal].
func (e *Error) Unwrap() error { return token.ErrSeal }

package signature

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/structfield"
	"github.com/fencepost/fencepost/token"
)

// Signed is a token and the signature that came with it. There may be no signature, and
// it may be wrong: see [Keyring.Verify]. Signed values are comparable with ==. If Key and
// Code are zero the token is unsigned.
type Signed struct {
	Token token.Token
	// Key is the id of the key, or "" if the token is unsigned.
	Key string
	// Until is when the signature expires, in Unix seconds. Zero means never. The token
	// itself does not expire.
	Until int64
	// Code is the HMAC. It is zero if the token is unsigned, and if the code that was
	// parsed has the wrong length; no key produces zero.
	Code [sha256.Size]byte
}

// String returns the token for people, with the key of its signature, as in
// "account/42#33 signed by 2026-11 until 2026-11-20T09:36:14Z". It leaves out the code,
// because a reader of the log could use it. [Signed.MarshalText] returns the form that
// can be parsed.
func (s Signed) String() string {
	text := s.Token.String()
	if s.Key == "" {
		return text
	}
	text += " signed by " + s.Key
	if s.Until != 0 {
		text += " until " + time.Unix(s.Until, 0).UTC().Format(time.RFC3339)
	}
	return text
}

// Format implements [fmt.Formatter]: every verb prints String. Without it, some verbs
// would print the fields.
func (s Signed) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// LogValue implements [slog.LogValuer], and returns String. slog calls it only for a
// Signed that is an attribute's value. For a Signed inside another value, an encoding
// handler, such as the one for JSON, writes all of MarshalText.
func (s Signed) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the token and its signature as an Item (RFC 9651 §3.3), as in the
// Fencing-Token header: the text of the token with the parameters k (String), x (Integer,
// if the signature expires) and s (Byte Sequence). The text of an unsigned token is the
// token's own. MarshalText returns a [*token.InvalidError] if the token is incomplete,
// and [token.ErrInvalid] if the signature cannot be encoded.
//
// The text contains the code: a reader of the text can use the token.
func (s Signed) MarshalText() ([]byte, error) {
	if err := s.Token.Validate(); err != nil {
		return nil, err
	}
	params := structfield.Signature{Key: s.Key, Until: s.Until, Code: s.Code}
	if err := params.Validate(); err != nil {
		return nil, malformed(err)
	}
	item := structfield.Item(s.Token.Number, s.Token.Resource, s.Token.Holder)
	params.AddTo(item)
	text, err := httpsfv.Marshal(item)
	return []byte(text), err
}

// UnmarshalText parses the text that [Signed.MarshalText] writes, or the text of an
// unsigned token. It does not verify, and ignores other parameters. It returns
// [token.ErrInvalid], and leaves the receiver unchanged, if a parameter is malformed, if
// parameter s has no k, or if k or x has no s. The error contains no value of a signature.
func (s *Signed) UnmarshalText(text []byte) error {
	item, err := httpsfv.UnmarshalItem([]string{string(text)})
	if err != nil {
		return malformed(err)
	}
	number, resource, holder, err := structfield.Parts(item)
	if err != nil {
		return malformed(err)
	}
	tok, err := token.New(resource, number, holder)
	if err != nil {
		return err
	}
	params, err := structfield.SignatureOf(item)
	if err != nil {
		return malformed(err)
	}
	*s = Signed{Token: tok, Key: params.Key, Until: params.Until, Code: params.Code}
	return nil
}

func malformed(err error) error {
	return fmt.Errorf("signature: text of a token: %w (%w)", err, token.ErrInvalid)
}

type contextKey struct{}

// carrier is a context with one more signature.
type carrier struct {
	context.Context
	signed Signed
	next   *carrier
}

// Value implements [context.Context].
func (c *carrier) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// String returns the context's description, without the code.
func (c *carrier) String() string { return fmt.Sprintf("%v.WithSignature(%s)", c.Context, c.signed) }

// Format implements [fmt.Formatter]: every verb prints String.
func (c *carrier) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.String()) }

// NewContext returns a context with s.Token, like [token.NewContext], and its signature.
// A service without a key uses it to forward a token with the signature that it came
// with. If s is unsigned the context has only the token.
func NewContext(ctx context.Context, s Signed) context.Context {
	if s.Key != "" {
		ctx = &carrier{Context: ctx, signed: s, next: carried(ctx)}
	}
	return token.NewContext(ctx, s.Token)
}

// FromContext returns tok with the signature that ctx carries for exactly this token,
// equal in resource, number and holder. If there are several it returns the newest. A
// signature of an older token of the same resource is never returned for a newer one. ok
// is false if there is none.
func FromContext(ctx context.Context, tok token.Token) (s Signed, ok bool) {
	for c := carried(ctx); c != nil; c = c.next {
		if c.signed.Token == tok {
			return c.signed, true
		}
	}
	return Signed{}, false
}

func carried(ctx context.Context) *carrier {
	c, _ := ctx.Value(contextKey{}).(*carrier)
	return c
}

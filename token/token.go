package token

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/internal/structfield"
)

// MaxNumber is the greatest number of a token. It has fifteen digits. Such a number is an
// Integer of RFC 9651 §3.3.1, fits a BIGINT, and is exact in the floating-point numbers
// of JSON, JavaScript and Lua.
const MaxNumber = 999_999_999_999_999

// Token is the proof of one acquisition of a resource. It is a comparable value. The
// zero Token is incomplete, and every guard refuses it.
type Token struct {
	// Resource is the name of the protected thing. All writers of a row must use the same
	// name.
	Resource string
	// Number orders the acquisitions of Resource. It is 1 to MaxNumber, and rises with
	// gaps. Numbers of different resources are not comparable.
	Number int64
	// Holder is the id of the acquisition. Two acquisitions never have the same Holder,
	// even if one process makes both. Holder distinguishes a holder's second write from a
	// write of another holder with an equal number.
	Holder string
}

// New returns a complete token. The rules of [ValidateResource] apply to resource and
// holder. If a part is not valid, New returns an [*InvalidError] that names the part.
func New(resource string, number int64, holder string) (Token, error) {
	tok := Token{Resource: resource, Number: number, Holder: holder}
	if err := tok.Validate(); err != nil {
		return Token{}, err
	}
	return tok, nil
}

// Validate returns nil if the token is complete, and an [*InvalidError] if not.
func (t Token) Validate() error {
	if err := validateName("resource", t.Resource); err != nil {
		return err
	}
	if t.Number < 1 || t.Number > MaxNumber {
		return &InvalidError{
			Part: "number", Value: strconv.FormatInt(t.Number, 10),
			Rule: "must be 1 to 999999999999999",
		}
	}
	return validateName("holder", t.Holder)
}

// String returns the token for display, as in "account/42#33". It leaves out the holder.
// [Token.MarshalText] returns the form that can be parsed.
func (t Token) String() string {
	return t.Resource + "#" + strconv.FormatInt(t.Number, 10)
}

// MaxNameBytes is the greatest length of a resource or holder, in bytes.
const MaxNameBytes = 200

// ValidateResource returns nil if resource is a valid name: 1 to [MaxNameBytes] bytes of
// UTF-8 without control characters. If not, it returns an [*InvalidError]. By convention
// the kind precedes the id: "account/42".
func ValidateResource(resource string) error { return validateName("resource", resource) }

func validateName(part, name string) error {
	if len(name) <= MaxNameBytes && isPlain(name) {
		return nil
	}
	rule := ""
	switch {
	case name == "":
		rule = "must not be empty"
	case len(name) > MaxNameBytes:
		rule = "must be at most " + strconv.Itoa(MaxNameBytes) + " bytes"
	case !utf8.ValidString(name):
		rule = "must be UTF-8"
	case hasControl(name):
		rule = "must not contain control characters"
	default:
		return nil
	}
	if len(name) > MaxNameBytes {
		name = name[:MaxNameBytes]
	}
	return &InvalidError{Part: part, Value: name, Rule: rule}
}

// isPlain reports whether name is printable ASCII. It is the fast path of validateName,
// which runs twice for each admission; nearly all names are printable ASCII.
func isPlain(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return name != ""
}

func hasControl(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) {
			return true
		}
	}
	return false
}

// MarshalText returns the token as an Item of RFC 9651 §3.3, as in the Fencing-Token
// header:
//
//	179516977481431;r="account/42";h="billing:7:1:c2f1"
//
// The number is an Integer. Resource and holder are Strings, or Display Strings (§3.3.8)
// if they are not plain ASCII. In JSON the token is a string, so no parser rounds the
// number. If the token is incomplete, MarshalText returns an [*InvalidError].
func (t Token) MarshalText() ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	text, err := httpsfv.Marshal(structfield.Item(t.Number, t.Resource, t.Holder))
	return []byte(text), err
}

// UnmarshalText parses the form that [Token.MarshalText] returns. It ignores unknown
// parameters. If text is malformed, it returns an [*InvalidError] and does not change the
// token.
func (t *Token) UnmarshalText(text []byte) error {
	item, err := httpsfv.UnmarshalItem([]string{string(text)})
	if err != nil {
		return notText(text, err)
	}
	number, resource, holder, err := structfield.Parts(item)
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
	return &InvalidError{Part: "text", Value: string(text[:min(len(text), MaxNameBytes)]), Rule: err.Error()}
}

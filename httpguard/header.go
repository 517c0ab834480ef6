package httpguard

import (
	"errors"
	"strconv"

	"github.com/dunglas/httpsfv"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/structfield"
	"github.com/fencepost/fencepost/token"
)

const (
	// Header is the name of the field that carries tokens.
	Header = "Fencing-Token"
	// MaxBytes is the maximum length of the field's value, the sum of all its lines.
	MaxBytes = 8 << 10
	// MaxMembers is the maximum number of tokens in one field.
	MaxMembers = 64
)

// Parse returns the tokens in the lines of the field (r.Header[Header]), in their order.
// It returns none for no lines, and for a single empty line.
//
// Several lines form one List (RFC 9651 §4.2). Each member is an Integer of 1 to 15
// digits with the parameters r (resource) and h (holder), each a String or a Display
// String. A signature adds k (String), s (Byte Sequence) and optionally x (Integer, at
// least 1). A member with k or s needs both, and x needs them too. Parse ignores other
// parameters. If a parameter is repeated, its last value counts, as RFC 9651 requires.
//
// Parse returns a [*HeaderError], and no tokens, for any other field. Two tokens of one
// resource are an error too, even if they are equal: the middleware could admit one and
// the handler use the other.
//
// Parse checks the form of signatures and drops them: see [ParseSigned].
func Parse(values []string) ([]token.Token, error) {
	all, err := ParseSigned(values)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	toks := make([]token.Token, len(all))
	for i := range all {
		toks[i] = all[i].Token
	}
	return toks, nil
}

// ParseSigned is [Parse] with the signatures. It does not verify them: see
// [signature.Keyring.Verify]. A code of the wrong length is no error here: its Code is
// zero, which no key produces.
func ParseSigned(values []string) ([]signature.Signed, error) {
	if size(values) > MaxBytes {
		return nil, tooLong()
	}
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return nil, &HeaderError{Rule: "must be a List of RFC 9651", Err: err}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > MaxMembers {
		return nil, tooMany()
	}
	all := make([]signature.Signed, 0, len(list))
	for i, member := range list {
		s, err := readMember(member)
		if err != nil {
			return nil, &HeaderError{Member: i + 1, Rule: rule(err), Err: err}
		}
		if has(all, s.Token.Resource) {
			return nil, &HeaderError{Member: i + 1, Rule: onlyOne}
		}
		all = append(all, s)
	}
	return all, nil
}

func readMember(member httpsfv.Member) (signature.Signed, error) {
	item, ok := member.(httpsfv.Item)
	if !ok {
		return signature.Signed{}, errInnerList
	}
	number, resource, holder, err := structfield.Parts(item)
	if err != nil {
		return signature.Signed{}, err
	}
	tok, err := token.New(resource, number, holder)
	if err != nil {
		return signature.Signed{}, err
	}
	params, err := structfield.SignatureOf(item)
	if err != nil {
		return signature.Signed{}, err
	}
	return signature.Signed{Token: tok, Key: params.Key, Until: params.Until, Code: params.Code}, nil
}

// size returns the length of values joined with a comma and a space.
func size(values []string) int {
	n := 0
	for _, value := range values {
		n += len(value) + len(", ")
	}
	return n - len(", ")
}

func has(all []signature.Signed, resource string) bool {
	for i := range all {
		if all[i].Token.Resource == resource {
			return true
		}
	}
	return false
}

// Format returns the field value for toks, which [Parse] reads back. For no tokens it
// returns "", and the field must be omitted (RFC 9651 §3.1). It returns a [*HeaderError]
// if a token is incomplete, if two tokens have one resource, or if there are more than
// MaxMembers tokens or MaxBytes bytes.
func Format(toks ...token.Token) (string, error) {
	all := make([]signature.Signed, len(toks))
	for i, tok := range toks {
		all[i].Token = tok
	}
	return FormatSigned(all...)
}

// FormatSigned is [Format] with signatures, which [ParseSigned] reads back. Signed and
// unsigned tokens may be mixed. It also returns a [*HeaderError] if a signature cannot be
// encoded: a Code without a Key, an invalid Key, or an Until that is negative or has more
// than 15 digits. It does not verify signatures.
func FormatSigned(all ...signature.Signed) (string, error) {
	if len(all) > MaxMembers {
		return "", tooMany()
	}
	list := make(httpsfv.List, len(all))
	for i, s := range all {
		item, err := writeMember(s)
		if err != nil {
			return "", &HeaderError{Member: i + 1, Rule: rule(err), Err: err}
		}
		if has(all[:i], s.Token.Resource) {
			return "", &HeaderError{Member: i + 1, Rule: onlyOne}
		}
		list[i] = item
	}
	text, err := httpsfv.Marshal(list)
	if err != nil {
		return "", &HeaderError{Rule: "must be a List of RFC 9651", Err: err}
	}
	if len(text) > MaxBytes {
		return "", tooLong()
	}
	return text, nil
}

func writeMember(s signature.Signed) (httpsfv.Item, error) {
	if err := s.Token.Validate(); err != nil {
		return httpsfv.Item{}, err
	}
	params := structfield.Signature{Key: s.Key, Until: s.Until, Code: s.Code}
	if err := params.Validate(); err != nil {
		return httpsfv.Item{}, err
	}
	item := structfield.Item(s.Token.Number, s.Token.Resource, s.Token.Holder)
	params.AddTo(item)
	return item, nil
}

const onlyOne = "must be the only token of its resource"

var errInnerList = errors.New("must be an Item, not an Inner List")

// HeaderError describes an invalid Fencing-Token field. errors.Is finds
// [token.ErrInvalid] and Err in it.
type HeaderError struct {
	Member int    // Member is the number of the invalid member, from 1; 0 means the whole field.
	Rule   string // Rule is the rule that the field breaks, as in "must be …".
	Err    error  // Err is the error of the parser or of package token, or nil.
}

func (e *HeaderError) Error() string {
	text := "httpguard: " + Header + ": " + e.fault()
	if e.Member == 0 && e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns [token.ErrInvalid] and Err.
func (e *HeaderError) Unwrap() []error {
	if e.Err == nil {
		return []error{token.ErrInvalid}
	}
	return []error{token.ErrInvalid, e.Err}
}

func tooLong() error {
	return &HeaderError{Rule: "must be at most " + strconv.Itoa(MaxBytes) + " bytes"}
}

func tooMany() error {
	return &HeaderError{Rule: "must have at most " + strconv.Itoa(MaxMembers) + " members"}
}

// fault returns the rule, for the response. It never contains the value that was sent.
func (e *HeaderError) fault() string {
	if e.Member == 0 {
		return e.Rule
	}
	return "member " + strconv.Itoa(e.Member) + ": " + e.Rule
}

// rule returns the rule that err describes, without the value that breaks it.
func rule(err error) string {
	var invalid *token.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Part + " " + invalid.Rule
	}
	return err.Error()
}

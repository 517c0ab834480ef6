package httpguard

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

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
	var buf [4]signature.Signed
	all, err := appendSigned(buf[:0], values)
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
	return appendSigned(nil, values)
}

// appendSigned appends to dst, which is empty and whose capacity it uses. It returns nil
// if there are no tokens.
func appendSigned(dst []signature.Signed, values []string) ([]signature.Signed, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if size(values) > MaxBytes {
		return nil, tooLong()
	}
	if all, ok := scan(dst, values); ok {
		return all, nil
	}
	return read(dst, values)
}

// scan is the fast path of appendSigned. It appends the members of lines to dst, which is
// empty, and accepts only what Format writes for names in plain ASCII. It allocates only
// what dst lacks: names are substrings of the lines. If ok is false the caller must use
// read, which alone decides whether the field is an error. What scan accepts, read parses
// to the same tokens.
func scan(dst []signature.Signed, lines []string) (_ []signature.Signed, ok bool) {
	for _, line := range lines {
		s := scanner{line}
		for more := true; more; more = s.comma() {
			if len(dst) == cap(dst) {
				more := min(1+strings.Count(s.rest, ","), MaxMembers)
				dst = append(make([]signature.Signed, 0, len(dst)+more), dst...)
			}
			dst = append(dst, signature.Signed{})
			member := &dst[len(dst)-1]
			if !s.member(member) || len(dst) > MaxMembers || has(dst[:len(dst)-1], member.Token.Resource) {
				return nil, false
			}
		}
		if s.rest != "" {
			return nil, false
		}
	}
	return dst, true
}

// scanner holds the rest of a line. Each method consumes its element from the front of
// rest, or returns the zero value if rest begins with something else.
type scanner struct{ rest string }

func (s *scanner) member(m *signature.Signed) bool {
	m.Token.Number = s.integer()
	m.Token.Resource = s.text(`;r="`)
	m.Token.Holder = s.text(`;h="`)
	if m.Token.Number == 0 || m.Token.Resource == "" || m.Token.Holder == "" {
		return false
	}
	return !strings.HasPrefix(s.rest, ";k=") || s.signature(m)
}

func (s *scanner) signature(m *signature.Signed) bool {
	if m.Key = s.text(`;k="`); !structfield.IsID(m.Key) {
		return false
	}
	if s.literal(";x=") {
		if m.Until = s.integer(); m.Until == 0 {
			return false
		}
	}
	return s.literal(";s=:") && s.code(&m.Code) && s.literal(":")
}

func (s *scanner) literal(text string) bool {
	rest, ok := strings.CutPrefix(s.rest, text)
	s.rest = rest
	return ok
}

// comma consumes the separator of two members. After a trailing comma it returns true
// too; the caller's next call of member then fails.
func (s *scanner) comma() bool {
	return s.literal(", ") || s.literal(",")
}

// integer consumes 1 to 15 digits (RFC 9651 §3.3.1). The first must not be zero.
func (s *scanner) integer() (n int64) {
	i := 0
	for ; i < len(s.rest) && i < 15 && '0' <= s.rest[i] && s.rest[i] <= '9'; i++ {
		n = 10*n + int64(s.rest[i]-'0')
	}
	if i == 0 || s.rest[0] == '0' {
		return 0
	}
	s.rest = s.rest[i:]
	return n
}

// text consumes open, which ends with a quote, and the rest of that String (§3.3.3). It
// accepts a String without escapes that is short enough for a name, and returns it as a
// substring.
func (s *scanner) text(open string) string {
	if !s.literal(open) {
		return ""
	}
	end := strings.IndexByte(s.rest, '"')
	if end < 0 || end > token.MaxNameBytes {
		return ""
	}
	for i := range end {
		if c := s.rest[i]; c < ' ' || c > '~' || c == '\\' {
			return ""
		}
	}
	text := s.rest[:end]
	s.rest = s.rest[end+1:]
	return text
}

const codeText = (sha256.Size + 2) / 3 * 4

// code consumes the base64 text of exactly len(code) bytes.
func (s *scanner) code(code *[sha256.Size]byte) bool {
	if len(s.rest) < codeText {
		return false
	}
	// The decoder may write one byte more than a code has, hence raw's length. It skips
	// line ends, and then decodes fewer bytes than a code has.
	var text [codeText]byte
	var raw [codeText / 4 * 3]byte
	copy(text[:], s.rest)
	n, err := base64.StdEncoding.Decode(raw[:], text[:])
	if err != nil || n != len(code) {
		return false
	}
	copy(code[:], raw[:])
	s.rest = s.rest[codeText:]
	return true
}

// read is appendSigned by package httpsfv, for every form that RFC 9651 allows.
func read(dst []signature.Signed, values []string) ([]signature.Signed, error) {
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
	for i, member := range list {
		s, err := readMember(member)
		if err != nil {
			return nil, &HeaderError{Member: i + 1, Rule: rule(err), Err: err}
		}
		if has(dst, s.Token.Resource) {
			return nil, &HeaderError{Member: i + 1, Rule: onlyOne}
		}
		dst = append(dst, s)
	}
	return dst, nil
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
	if len(toks) > MaxMembers {
		return "", tooMany()
	}
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

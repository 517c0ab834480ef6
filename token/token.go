package token

import "strconv"

// MaxNumber is the greatest number a token can carry: fifteen digits, so that
// it is an Integer of RFC 9651 §3.3.1, a BIGINT, and exact in the doubles of
// JSON, JavaScript and Lua alike.
const MaxNumber = 999_999_999_999_999

// Token is the proof of one acquisition of a resource. It is a value: it is
// comparable, and nothing changes it. The zero Token is incomplete, and every
// guard refuses it.
type Token struct {
	// Resource is the name of what is protected. The fence is the name: all
	// writers of one row must use one name for it.
	Resource string
	// Number orders the acquisitions of Resource: 1 to MaxNumber, rising,
	// with gaps. Numbers of different resources do not compare.
	Number int64
	// Holder is the id of the acquisition: two acquisitions never share one,
	// not even two by the same process. It tells the second write of a holder
	// from the write of an impostor with an equal number.
	Holder string
}

// New returns a complete token, or an [*InvalidError] that says which part is
// not: see [CheckResource] for names, which holders follow too.
func New(resource string, number int64, holder string) (Token, error) {
	tok := Token{Resource: resource, Number: number, Holder: holder}
	if err := tok.Check(); err != nil {
		return Token{}, err
	}
	return tok, nil
}

// Check returns nil if the token is complete, else an [*InvalidError].
func (t Token) Check() error {
	if err := checkName("resource", t.Resource); err != nil {
		return err
	}
	if t.Number < 1 || t.Number > MaxNumber {
		return &InvalidError{
			Part: "number", Value: strconv.FormatInt(t.Number, 10),
			Rule: "must be 1 to 999999999999999",
		}
	}
	return checkName("holder", t.Holder)
}

// String returns the token for people, as in "account/42#33". It leaves out
// the holder; [Token.MarshalText] is the form that can be read back.
func (t Token) String() string {
	return t.Resource + "#" + strconv.FormatInt(t.Number, 10)
}

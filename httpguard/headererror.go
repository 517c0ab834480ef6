package httpguard

import (
	"errors"
	"strconv"

	"github.com/fencepost/fencepost/token"
)

const onlyOne = "must be the only token of its resource"

var errInnerList = errors.New("must be an Item, not an Inner List")

// HeaderError says what is wrong with a Fencing-Token field. It is
// [token.ErrInvalid], and whatever Err is.
type HeaderError struct {
	Member int    // which member breaks the rule, from 1; 0 for the field as a whole
	Rule   string // what it must be
	Err    error  // the codec's or the token's own error, or nil
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

// fault is what the sender is told: which rule, never what it sent.
func (e *HeaderError) fault() string {
	if e.Member == 0 {
		return e.Rule
	}
	return "member " + strconv.Itoa(e.Member) + ": " + e.Rule
}

// rule is the rule that a member breaks, without the value that broke it.
func rule(err error) string {
	var invalid *token.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Part + " " + invalid.Rule
	}
	return err.Error()
}

package token

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// MaxName is the greatest length of a resource or holder, in bytes.
const MaxName = 200

// CheckResource returns nil if resource can name a protected thing: 1 to
// [MaxName] bytes of UTF-8 without control characters. By custom the kind
// stands before the id: "account/42". The error is an [*InvalidError].
func CheckResource(resource string) error { return checkName("resource", resource) }

func checkName(part, name string) error {
	if len(name) <= MaxName && isPlain(name) {
		return nil
	}
	rule := ""
	switch {
	case name == "":
		rule = "must not be empty"
	case len(name) > MaxName:
		rule = "must be at most " + strconv.Itoa(MaxName) + " bytes"
	case !utf8.ValidString(name):
		rule = "must be UTF-8"
	case hasControl(name):
		rule = "must not contain control characters"
	default:
		return nil
	}
	if len(name) > MaxName {
		name = name[:MaxName]
	}
	return &InvalidError{Part: part, Value: name, Rule: rule}
}

// isPlain reports whether name is printable ASCII, as nearly all names are: each
// admission checks two of them.
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

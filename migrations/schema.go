package migrations

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// schema is the unquoted name of a PostgreSQL schema.
type schema string

// newSchema returns the schema called name, or "fencepost" if name is empty. It refuses
// control characters and slashes, because keys of locks and lines of settings have the
// form "schema/resource".
func newSchema(name string) (schema, error) {
	rule := ""
	switch {
	case name == "":
		return "fencepost", nil
	case strings.TrimSpace(name) == "":
		rule = "must not be blank"
	case len(name) > 63:
		rule = "must be at most 63 bytes, or PostgreSQL would cut it"
	case !utf8.ValidString(name):
		rule = "must be UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		rule = "must not contain control characters"
	case strings.Contains(name, "/"):
		rule = "must not contain a slash"
	default:
		return schema(name), nil
	}
	return "", fmt.Errorf("migrations: schema %q %s", name, rule)
}

// ident returns the name as a quoted identifier.
func (s schema) ident() string {
	return `"` + strings.ReplaceAll(string(s), `"`, `""`) + `"`
}

// literal returns the name as a string constant that is valid whether
// standard_conforming_strings is on or off.
func (s schema) literal() string {
	quoted := "'" + strings.ReplaceAll(string(s), "'", "''") + "'"
	if strings.Contains(quoted, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// tag returns a dollar quote, $word$ or similar, that does not occur in the name: the
// name occurs inside function bodies, and in constants within them.
func (s schema) tag(word string) string {
	tag := "$" + word + "$"
	for i := 1; strings.Contains(string(s), tag); i++ {
		tag = fmt.Sprintf("$%s%d$", word, i)
	}
	return tag
}

// put returns the text of a migration with the name in place of "fencepost". The files
// write "fencepost" only in these forms.
func (s schema) put(text string) string {
	return strings.NewReplacer(
		`"fencepost"`, s.ident(),
		`'fencepost'`, s.literal(),
		`$fencepost$`, s.tag("fencepost"),
		`$numbers$`, s.tag("numbers"),
	).Replace(text)
}

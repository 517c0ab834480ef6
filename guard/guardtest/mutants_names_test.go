package guardtest_test

import (
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var nameFaults = []fault{
	{"one mark for each kind", []string{apart, resourceBytes, whole}, func(m *mutant) {
		m.key = func(resource string) string { kind, _, _ := strings.Cut(resource, "/"); return kind }
	}},
	{"resources without case", []string{resourceBytes}, keyed(strings.ToLower)},
	{"resources without trailing spaces", []string{resourceBytes}, keyed(func(s string) string { return strings.TrimRight(s, " ") })},
	{"resources cut at 191 bytes", []string{whole}, keyed(func(s string) string { return s[:min(len(s), 191)] })},
	{"resources with doubled quotes", []string{resourceBytes}, keyed(func(s string) string { return strings.ReplaceAll(s, "''", "'") })},
	{"holders without case", []string{holderBytes}, sameHolder(strings.EqualFold)},
	{"holders without trailing spaces", []string{holderBytes}, sameHolder(func(a, b string) bool {
		return strings.TrimRight(a, " ") == strings.TrimRight(b, " ")
	})},
	{"holders by prefix", []string{holderBytes}, sameHolder(strings.HasPrefix)},
	{"holders cut at 191 bytes", []string{whole}, sameHolder(func(a, b string) bool {
		return a[:min(len(a), 191)] == b[:min(len(b), 191)]
	})},
}

func sameHolder(same func(a, b string) bool) func(*mutant) {
	return func(m *mutant) {
		m.admits = func(mark guard.Mark, tok token.Token) bool {
			return tok.Number > mark.Number || tok.Number == mark.Number && same(tok.Holder, mark.Holder)
		}
	}
}

func keyed(key func(string) string) func(*mutant) { return func(m *mutant) { m.key = key } }

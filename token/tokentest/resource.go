package tokentest

import (
	"errors"
	"strings"

	"github.com/fencepost/fencepost/token"
)

var resourceRules = []rule{
	{"resources are independent", resourcesAreIndependent},
	{"every valid name is a resource of its own", namesAreKept},
	{"what no token can carry is not granted", incompleteIsRefused},
}

func resourcesAreIndependent(p *probe) {
	one, two, part := p.at(p.resource+"/1"), p.at(p.resource+"/2"), p.at(p.resource)
	first := one.granted("a", long).Token
	second := two.granted("a", long).Token
	part.granted("c", long)
	one.released(first)
	one.notRenewed(first)
	one.granted("b", long)
	two.renewed(second, long)
	two.held("a")
	part.held("c")
}

// names are valid, pairwise different, and awkward for somebody: for text that
// is normalised, quoted, formatted, matched, hashed by its braces, or cut.
var names = []string{
	"gr\u00f6\u00dfe", "gro\u0308\u00dfe", "日本", "🔒", "two words", "two words ", "Case", "case",
	`"quoted"`, `'quoted'`, "`", `back\slash`, "{tag}a", "{tag}b", "{}", "}{", "a:b", "a/b", "/", ".",
	"*", "?[a]", "%", "%s", "%00", "_", "$1", "a;b=\"c\"", "--", "\u00a0", "\u2028", "null",
	strings.Repeat("l", 80) + "1", strings.Repeat("l", 80) + "2",
}

// All of the names are held at once, each by a holder of that name.
func namesAreKept(p *probe) {
	full := token.MaxName - len(p.resource) - 2
	all := append([]string{strings.Repeat("f", full) + "1", strings.Repeat("f", full) + "2"}, names...)
	toks := make([]token.Token, len(all))
	for i, name := range all {
		toks[i] = p.at(p.resource+"/"+name).granted(name, long).Token
	}
	for i, name := range all {
		at := p.at(p.resource + "/" + name)
		at.held(name)
		at.renewed(toks[i], long)
		at.released(toks[i])
		at.free()
	}
}

// hazard G16
func incompleteIsRefused(p *probe) {
	for _, names := range incomplete(p.resource) {
		if _, err := p.iss.Acquire(p.ctx, names[0], names[1], long); !errors.Is(err, token.ErrInvalid) {
			p.failf("Acquire of %q by %q returned %v, want ErrInvalid", names[0], names[1], err)
		}
	}
	p.free()
}

// incomplete are a resource and a holder of which one is no name.
func incomplete(resource string) [][2]string {
	return [][2]string{
		{"", "a"}, {resource, ""}, {resource, "\xff"}, {resource + "\n", "a"},
		{strings.Repeat("r", token.MaxName+1), "a"},
	}
}

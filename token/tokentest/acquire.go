package tokentest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

var numberRules = []rule{
	{"a grant has the requested resource and holder, and a number of at most fifteen digits", grantsNameWhatWasAsked},
	{"numbers rise over a release", numbersRiseOverRelease},
	{"numbers rise over a release to the same holder", numbersRiseForOneHolder},
	{"numbers rise over an expiry", numbersRiseOverExpiry},
	{"a number is at least the clock in units of 10 µs", numbersAreClocks},
}

func grantsNameWhatWasAsked(p *probe) {
	tok := p.granted("a", long).Token
	if p.err != nil {
		return
	}
	if tok.Resource != p.resource || tok.Holder != "a" {
		p.failf("Acquire of %q by %q granted %q to %q", p.resource, "a", tok.Resource, tok.Holder)
	}
	if err := tok.Validate(); err != nil {
		p.failf("the token is incomplete: %w", err)
	}
}

func numbersRiseOverRelease(p *probe) {
	p.rise(func(i int) string { return fmt.Sprintf("holder-%d", i) })
}

func numbersRiseForOneHolder(p *probe) {
	p.rise(func(int) string { return "a" })
}

// rise makes the rounds follow each other closely: an issuer that uses only a clock
// repeats numbers within a tick. If the holder is always the same, a release may return
// ErrLost: an issuer on several servers may have returned before some of them had
// received the previous round's release, which then ends this round's lease there.
func (p *probe) rise(holder func(int) string) {
	var last int64
	for i := range 64 {
		tok := p.granted(holder(i), long).Token
		p.above(last, tok.Number)
		if p.err == nil {
			if err := p.iss.Release(p.ctx, tok); err != nil && (!errors.Is(err, token.ErrLost) || holder(0) != holder(1)) {
				p.failf("Release by %q: %w", tok.Holder, err)
			}
		}
		last = tok.Number
	}
}

func (p *probe) above(last, number int64) {
	if p.err == nil && number <= last {
		p.failf("number %d was granted after %d", number, last)
	}
}

func numbersRiseOverExpiry(p *probe) {
	first := p.granted("a", short).Token
	second := p.awaited("b", short).Token
	p.above(first.Number, second.Number)
	third := p.awaited("a", long).Token
	p.above(second.Number, third.Number)
}

// hazard R12
func numbersAreClocks(p *probe) {
	floor := time.Now().Add(-time.Minute).UnixMicro() / 10 // a minute, since the server's clock may be behind ours
	if number := p.granted("a", long).Token.Number; p.err == nil && number < floor {
		p.failf("number %d is below the clock, %d: numbers of two issuers do not compare", number, floor)
	}
}

var numbersAfterLoss = rule{"two grants differ, although the issuer's data was lost in between: numbers rise", numbersRiseOverLoss}

// A clock of whole seconds grants one number twice.
//
// hazard L18
func numbersRiseOverLoss(p *probe) {
	var last int64
	for i := range 8 {
		tok := p.granted(fmt.Sprintf("holder-%d", i), long).Token
		p.above(last, tok.Number)
		last = tok.Number
		if err := p.iss.(Forgetter).Forget(p.ctx, p.resource); err != nil {
			p.failf("Forget: %w", err)
		}
		p.outlast(0) // the clock's tick
	}
}

var holderRules = []rule{
	{"a resource that is held is refused, with its holder and the rest of its ttl", heldIsRefused},
	{"a refused try changes nothing", refusalsChangeNothing},
	{"the holder is granted its resource again, for the whole ttl", holderIsGrantedAgain},
	{"holders are compared whole by Acquire", acquireComparesWhole},
	{"holders are compared whole by Renew", renewComparesWhole},
	{"holders are compared whole by Release", releaseComparesWhole},
}

func heldIsRefused(p *probe) {
	p.granted("a", long)
	p.held("a")
}

func refusalsChangeNothing(p *probe) {
	tok := p.granted("a", long).Token
	for range 3 {
		p.refused("b", longer)
	}
	p.held("a")
	p.renewed(tok, long)
	p.notReleased(token.Token{Resource: p.resource, Number: tok.Number, Holder: "b"})
	p.released(tok)
	p.granted("c", long)
}

// hazard R6
func holderIsGrantedAgain(p *probe) {
	first := p.granted("a", long).Token
	again := p.granted("a", longer).Token
	if p.err == nil && again.Number < first.Number {
		p.failf("the holder acquired again and was granted %d after %d", again.Number, first.Number)
	}
	if held := p.refused("b", long); p.err == nil && held.Remaining <= long {
		p.failf("the holder acquired again for %s, and the lease has %s left", longer, held.Remaining)
	}
	p.released(again)
	p.above(again.Number, p.granted("b", long).Token.Number)
}

// alike are pairs of different holders.
var alike = [][2]string{
	{"worker-1", "worker-10"}, {"worker-10", "worker-1"},
	{"worker-1", "Worker-1"}, {"worker-1", "worker-1 "}, {"worker 1", "worker%201"},
	{"gr\u00f6\u00dfe", "gro\u0308\u00dfe"}, {"worker", "*"}, {"worker_1", "worker-1"},
}

// eachAlike grants a resource to the first holder of each pair, and calls try with the
// token and the second. Each pair has a resource of its own: an issuer on several servers
// may return before the last server has received the request. A request that arrives late
// must not match the holder of a later pair.
func (p *probe) eachAlike(try func(at *probe, tok token.Token, other string)) {
	for i, pair := range alike {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, i))
		tok := at.granted(pair[0], long).Token
		try(at, tok, pair[1])
		at.held(pair[0])
		at.released(tok)
	}
}

// hazard R7
func acquireComparesWhole(p *probe) {
	p.eachAlike(func(at *probe, _ token.Token, other string) { at.refused(other, long) })
}

// hazard R7
func renewComparesWhole(p *probe) {
	p.eachAlike(func(at *probe, tok token.Token, other string) {
		at.notRenewed(token.Token{Resource: tok.Resource, Number: tok.Number, Holder: other})
	})
}

// hazard R7
func releaseComparesWhole(p *probe) {
	p.eachAlike(func(at *probe, tok token.Token, other string) {
		at.notReleased(token.Token{Resource: tok.Resource, Number: tok.Number, Holder: other})
	})
}

var resourceRules = []rule{
	{"resources are independent", resourcesAreIndependent},
	{"every valid name is a resource of its own", namesAreKept},
	{"a name that is not valid in a token is refused", incompleteIsRefused},
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

// names are valid, different from each other, and difficult for some servers: for those
// that normalise, quote, format, match or cut text, or hash by braces.
var names = []string{
	"gr\u00f6\u00dfe", "gro\u0308\u00dfe", "日本", "🔒", "two words", "two words ", "Case", "case",
	`"quoted"`, `'quoted'`, "`", `back\slash`, "{tag}a", "{tag}b", "{}", "}{", "a:b", "a/b", "/", ".",
	"*", "?[a]", "%", "%s", "%00", "_", "$1", "a;b=\"c\"", "--", "\u00a0", "\u2028", "null",
	strings.Repeat("l", 80) + "1", strings.Repeat("l", 80) + "2",
}

// All names are held at once, each by a holder with the same name.
func namesAreKept(p *probe) {
	full := token.MaxNameBytes - len(p.resource) - 2
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

// incomplete returns pairs of a resource and a holder, one of which is not a valid name.
func incomplete(resource string) [][2]string {
	return [][2]string{
		{"", "a"}, {resource, ""}, {resource, "\xff"}, {resource + "\n", "a"},
		{strings.Repeat("r", token.MaxNameBytes+1), "a"},
	}
}

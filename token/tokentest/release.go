package tokentest

import "github.com/fencepost/fencepost/token"

var releaseRules = []rule{
	{"a release frees the resource at once", releaseFrees},
	{"only the holder releases", onlyTheHolderReleases},
	{"the number plays no part in a release", releaseWithoutNumber},
	{"what is no longer held cannot be released", releaseOfNothing},
}

func releaseFrees(p *probe) {
	p.released(p.granted("a", long).Token)
	p.free()
}

func onlyTheHolderReleases(p *probe) {
	tok := p.granted("a", long).Token
	p.notReleased(token.Token{Resource: p.resource, Number: tok.Number, Holder: "b"})
	p.held("a")
	p.renewed(tok, long)
}

// A holder whose grant was lost with its reply knows no number.
func releaseWithoutNumber(p *probe) {
	p.granted("a", long)
	p.released(token.Token{Resource: p.resource, Number: 1, Holder: "a"})
	p.free()
}

func releaseOfNothing(p *probe) {
	p.notReleased(token.Token{Resource: p.resource, Number: 1, Holder: "a"})
	tok := p.granted("a", long).Token
	p.released(tok)
	p.notReleased(tok)

	expired := p.granted("b", short).Token
	p.outlast(short)
	p.notReleased(expired)

	next := p.granted("c", long).Token
	p.notReleased(tok)
	p.notReleased(expired)
	p.held("c")
	p.renewed(next, long)
}

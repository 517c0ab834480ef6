package tokentest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

var inspectRules = []rule{
	{"Inspect returns the holder, the rest of its ttl, and a number below the next", inspectHeld},
	{"a resource that was never granted, was released or has expired has no holder", inspectFree},
	{"Locks returns what is held and begins with the prefix, whatever the names contain", locksOfPrefix},
	{"an Inspect under a cancelled context returns soon", cancelledInspect},
}

var inspectedQueue = rule{"Inspect lists waiters in the order of their calls, and drops none", settled(inspectQueue)}

func (p *probe) inspected() (s token.State) {
	if p.err != nil {
		return s
	}
	s, err := p.iss.(token.Inspector).Inspect(p.ctx, p.resource)
	switch free := s.Holder == ""; {
	case err != nil:
		p.failf("Inspect: %w", err)
	case s.Resource != p.resource:
		p.failf("Inspect of %q returned the state of %q", p.resource, s.Resource)
	case free && s.Remaining != 0, !free && (s.Remaining < 0 || s.Remaining > long):
		p.failf("Remaining is %s for holder %q, want at most %s, and 0 without a holder", s.Remaining, s.Holder, long)
	}
	return s
}

// has checks the holder and the least number that Inspect returns, and returns the state.
func (p *probe) has(holder string, least int64) token.State {
	s := p.inspected()
	if p.err == nil && (s.Holder != holder || s.Number < least) {
		p.failf("Inspect returned holder %q and number %d, want %q and at least %d", s.Holder, s.Number, holder, least)
	}
	return s
}

func inspectHeld(p *probe) {
	for range 2 {
		tok := p.granted("a", long).Token
		s := p.has("a", tok.Number)
		p.held("a")
		p.renewed(tok, long)
		p.released(tok)
		next := p.granted("b", long).Token
		p.above(s.Number, next.Number)
		p.released(next)
	}
}

func inspectFree(p *probe) {
	p.has("", 0)
	tok := p.granted("a", long).Token
	p.released(tok)
	p.has("", tok.Number)
	tok = p.granted("b", short).Token
	for start := time.Now(); p.err == nil && p.inspected().Holder != ""; time.Sleep(pause) {
		if time.Since(start) > timeout {
			p.failf("Inspect returns a holder whose ttl has ended: %w", errTimeout)
		}
	}
	p.has("", tok.Number)
	p.freed()
}

func locksOfPrefix(p *probe) {
	names := []string{"*", "a*", "ab", "a?", "[ab]", `\`, `\*`, "%", "a%", "a_", "{", "a}", "a}:lock:a", ":"}
	for n, name := range names {
		names[n] = p.resource + "/" + name
		p.at(names[n]).granted("a", long)
	}
	free := p.at(p.resource + "/free")
	free.released(free.granted("a", long).Token)
	for _, prefix := range append(slices.Clone(names), p.resource+"/", p.resource+"/a", p.resource+"/f") {
		found := map[string]bool{}
		for s, err := range p.iss.(token.Inspector).Locks(p.ctx, prefix) {
			if found[s.Resource] = true; p.err == nil && (err != nil || s.Holder != "a") {
				p.failf("Locks returned %+v and the error %v, want the holder \"a\"", s, err)
				return
			}
		}
		want := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		if got := slices.Sorted(maps.Keys(found)); p.err == nil && !slices.Equal(got, want) {
			p.failf("Locks(%q) returned %q, want %q", prefix, got, want)
		}
	}
}

func cancelledInspect(p *probe) {
	p.granted("a", long)
	p.cancelled("Inspect", func(ctx context.Context) error {
		_, err := p.iss.(token.Inspector).Inspect(ctx, p.resource)
		return err
	})
}

// An issuer whose waiters share a place lists only the first of them.
func inspectQueue(p *probe) {
	tok := p.granted("holder", long).Token
	queue := []*waiting{p.waits("c", long), p.waits("a", long), p.waits("b", long)}
	for n, w := range queue {
		got := p.has(tok.Holder, tok.Number).Waiters
		if want := []string{"c", "a", "b"}[n:]; p.err == nil && !slices.Equal(got, want) && !slices.Equal(got, want[:1]) {
			p.suspectf("Inspect lists the waiters %q, want %q", got, want)
		}
		p.released(tok)
		tok = p.handed(w).Token
	}
	p.released(tok)
	p.free()
}

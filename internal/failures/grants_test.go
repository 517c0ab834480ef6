package failures_test

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// grants are what the issuer has given, in the order in which that was heard.
type grants struct {
	mu     sync.Mutex
	tokens []token.Token
	healed int
}

func (g *grants) observer() token.Observer {
	return token.Observer{
		Acquired:   func(_ context.Context, tok token.Token, _ time.Duration) { g.add(tok) },
		Healed:     func(context.Context, token.Token, int64) { g.heal() },
		Endangered: func(context.Context, token.Token, time.Duration, error) {}, // expected: not for the log
	}
}

func (g *grants) add(tok token.Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens = append(g.tokens, tok)
}

func (g *grants) heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.healed++
}

func (g *grants) healings() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.healed
}

// fell reports whether the issuer gave a number that was not above all earlier
// ones: it had forgotten them.
func (g *grants) fell() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return falls(g.tokens)
}

// falls reports whether a token is not above one of another holder before it.
func falls(tokens []token.Token) bool {
	var top token.Token
	for _, tok := range tokens {
		if tok.Number < top.Number || tok.Number == top.Number && tok.Holder != top.Holder {
			return true
		}
		top = tok
	}
	return false
}

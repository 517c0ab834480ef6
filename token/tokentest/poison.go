package tokentest

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

// A minute is for the issuer's clock to be ahead of ours.
func raiseOfPoison(p *probe) {
	poison := time.Now().UnixMicro()/10 + token.Poisoned + minute
	for _, number := range []int64{poison, token.MaxNumber} {
		if err := p.raise(number); !errors.Is(err, token.ErrPoisoned) {
			p.failf("Raise to %d returned %v, want ErrPoisoned", number, err)
		}
	}
	if number := p.number("a"); number >= poison {
		p.failf("number %d was granted after the Raise to %d was refused", number, poison)
	}
}

func raiseBelowPoison(p *probe) {
	number := time.Now().UnixMicro()/10 + token.Poisoned/2
	if err := p.raise(number); err != nil && !errors.Is(err, token.ErrLost) {
		p.failf("Raise to 12 h ahead: %w", err)
	}
	p.above(number, p.number("a"))
}

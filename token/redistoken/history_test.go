package redistoken_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// history is what all holders of one resource see, in the order in which they
// see it.
type history struct {
	mu       sync.Mutex
	holder   token.Token
	until    time.Time
	last     int64
	grants   int
	overlaps []string
	falls    []string
}

// granted notes a grant. One whose time is up already counts for nothing: its
// holder has been too slow to hear of it, and knows.
func (h *history) granted(g token.Grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !now.Before(g.Until) {
		return
	}
	if now.Before(h.until) {
		h.overlaps = append(h.overlaps, fmt.Sprintf("%s while %s had %s left", g.Token, h.holder, h.until.Sub(now)))
	}
	if g.Token.Number <= h.last {
		h.falls = append(h.falls, fmt.Sprintf("%s after %d", g.Token, h.last))
	}
	h.holder, h.until, h.last = g.Token, g.Until, max(h.last, g.Token.Number)
	h.grants++
}

// released notes that tok's holder is about to give back, or to die.
func (h *history) released(tok token.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holder == tok {
		h.until = time.Time{}
	}
}

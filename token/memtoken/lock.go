package memtoken

import (
	"time"

	"github.com/fencepost/fencepost/internal/lock"
)

// watched is a lock, and who comes by when its grant has ended. All of it is
// under the issuer's mutex.
type watched struct {
	lock.Lock
	visitor *time.Timer
}

// watch has somebody come by when the grant has ended, for as long as there is
// a line: nobody else may by then.
func (l *watched) watch(now time.Time, visit func()) {
	left := l.Grant.Until.Sub(now)
	switch {
	case len(l.Line) == 0:
		if l.visitor != nil {
			l.visitor.Stop()
			l.visitor = nil
		}
	case l.visitor == nil:
		l.visitor = time.AfterFunc(left, visit)
	default:
		l.visitor.Reset(left)
	}
}

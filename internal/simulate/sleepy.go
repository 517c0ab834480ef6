package simulate

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// sleepyIssuer renews nothing while its writer is paused inside the process, as
// nothing would renew if the process stood.
type sleepyIssuer struct {
	token.Issuer
	awake sync.RWMutex
}

// sleep holds renewals up until wake is called.
func (i *sleepyIssuer) sleep() (wake func()) {
	i.awake.Lock()
	return i.awake.Unlock
}

// Renew implements [token.Issuer].
func (i *sleepyIssuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	i.awake.RLock()
	defer i.awake.RUnlock()
	return i.Issuer.Renew(ctx, tok, ttl)
}

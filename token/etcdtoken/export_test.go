package etcdtoken

import (
	"time"

	"github.com/fencepost/fencepost/internal/register"
)

// StoreOf returns the store of an issuer.
func StoreOf(i *Issuer) register.Store { return i.issuer.(*register.Issuer).Store }

// KeepStreams lets streams wait for d. It must be called before the first call of i.
func KeepStreams(i *Issuer, d time.Duration) { StoreOf(i).(*store).idle = d }

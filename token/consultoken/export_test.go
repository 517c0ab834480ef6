package consultoken

import "github.com/fencepost/fencepost/internal/register"

// StoreOf returns the store of an issuer.
func StoreOf(i *Issuer) register.Store { return i.issuer.(*register.Issuer).Store }

package consultoken

import "github.com/fencepost/fencepost/internal/register"

// RegisterOf returns the issuer below an Issuer.
func RegisterOf(i *Issuer) *register.Issuer { return i.issuer.(*register.Issuer) }

// StoreOf returns the store of an issuer.
func StoreOf(i *Issuer) register.Store { return RegisterOf(i).Store }

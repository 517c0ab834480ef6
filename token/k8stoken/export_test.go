package k8stoken

import (
	"encoding/json"
	"time"

	"github.com/fencepost/fencepost/internal/register"
)

var (
	Name             = name
	Encode           = encode
	ConfigFromFolder = inCluster
)

// StoreOf returns the store of an issuer.
func StoreOf(i *Issuer) register.Store { return i.issuer.(*register.Issuer).Store }

// EntryOf returns the entry of a Lease in JSON.
func EntryOf(text []byte) (register.Entry, error) {
	var l lease
	if err := json.Unmarshal(text, &l); err != nil {
		return register.Entry{}, err
	}
	return l.entry(time.Time{})
}

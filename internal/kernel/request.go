package kernel

import (
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// request is a question or a change under a token.
type request struct {
	resource int
	tok      token.Token
	seal     seal.Sealed // where it goes to the service
	task     *task       // nil: a claim
	write    op          // the attempt, where the holder writes itself
	seen     row         // what it read
}

// reply is what the guard says of it.
type reply struct {
	err        error
	seen, made int64 // versions
	by         op    // the attempt that was applied
}

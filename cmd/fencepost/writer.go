package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/fencepost/fencepost/internal/simulate"
)

type writerCmd struct{}

// Run is called by kong. Where a Ctrl-C reaches the writers too, it is still
// for their parent to end them.
func (writerCmd) Run(std streams) error {
	signal.Ignore(os.Interrupt)
	return simulate.Serve(context.Background(), std.in, std.out)
}

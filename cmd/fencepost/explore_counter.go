package main

import (
	"fmt"
	"io"
)

// counter shows on a terminal how far many runs have come, and elsewhere nothing.
type counter struct {
	progress
	all, shown uint64
}

func newCounter(out io.Writer, all uint64, quiet bool) *counter {
	return &counter{progress: progress{out: out, drawn: terminal(out) && !quiet}, all: all}
}

// at is told how many are done. It draws a hundred times in all.
func (c *counter) at(done uint64) {
	if c.drawn && done >= c.shown+c.all/100 {
		c.shown = done
		c.put(fmt.Sprintf("%d of %d schedules", done, c.all))
	}
}

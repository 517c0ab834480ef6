package main

import (
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"
)

// above0 is a flag's whole number above 0. Kong would take -1 for a flag.
type above0 int64

var _ kong.MapperValue = (*above0)(nil)

// Decode is called by kong.
func (n *above0) Decode(ctx *kong.DecodeContext) error {
	text := ctx.Scan.Pop().String()
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 1 {
		return fmt.Errorf("%s: must be a whole number above 0", text)
	}
	*n = above0(value)
	return nil
}

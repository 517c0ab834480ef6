package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// size is a flag's size: a whole number above 0, of bytes or with KiB or MiB.
type size int64

var _ kong.MapperValue = (*size)(nil)

// Decode is called by kong.
func (s *size) Decode(ctx *kong.DecodeContext) error {
	text := ctx.Scan.Pop().String()
	digits, scale := text, int64(1)
	for suffix, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if before, found := strings.CutSuffix(text, suffix); found {
			digits, scale = before, bytes
		}
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 {
		return fmt.Errorf("%s: must be a whole number above 0, of bytes, KiB, MiB or GiB", text)
	}
	*s = size(n * scale)
	return nil
}

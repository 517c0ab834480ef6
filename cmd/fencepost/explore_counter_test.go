package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCounterDrawsAHundredTimesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := newCounter(&out, 64_000, false)
	require.False(t, c.drawn, "that is no terminal")
	c.drawn = true
	for done := uint64(64); done <= 64_000; done += 64 {
		c.at(done)
	}
	c.clear()
	lines := strings.Split(strings.TrimPrefix(out.String(), "\r"), "\r")
	require.Len(t, lines, 102)
	require.Equal(t, "640 of 64000 schedules", strings.TrimSpace(lines[0]))
	require.Equal(t, "64000 of 64000 schedules", strings.TrimSpace(lines[99]))
	require.Empty(t, strings.TrimSpace(lines[100])+lines[101])
}

func TestTheCounterIsSilentElsewhere(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := newCounter(&out, 1, false)
	c.at(1)
	c.clear()
	require.Empty(t, out.String())
}

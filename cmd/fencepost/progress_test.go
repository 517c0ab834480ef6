package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
)

func TestProgressDrawsOverItsLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, 10, false)
	p.drawn = true
	for _, e := range []simulate.Event{
		{Writer: "A", Kind: simulate.Holds}, {Writer: "A", Kind: simulate.Stopped}, {Writer: "B", Kind: simulate.Asks},
		{Writer: "B", Kind: simulate.Holds}, {Writer: "A", Kind: simulate.Continued}, {Writer: "A", Kind: simulate.Refused},
	} {
		p.observe(simulate.Progress{Way: simulate.CheckThenWrite, Round: 4, Event: e})
	}
	p.clear()
	require.NotContains(t, out.String(), "\n")
	lines := strings.Split(strings.TrimPrefix(out.String(), "\r"), "\r")
	var scenes []string
	for _, line := range lines[:len(lines)-1] {
		require.Equal(t, progressWidth, utf8.RuneCountInString(line), "what was there is covered")
		if _, scene, found := strings.Cut(line, "23/40  check-then-write  "); found {
			scenes = append(scenes, strings.TrimSpace(scene))
		}
	}
	require.Equal(t, []string{
		"A has the lock", "A is stopped", "A sleeps, B waits", "A sleeps, B has the lock", "A wakes up and writes",
	}, scenes)
	require.Empty(t, lines[len(lines)-1])
}

func TestProgressOfNothingLeavesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, 10, false)
	p.drawn = true
	p.clear()
	require.Empty(t, out.String())
}

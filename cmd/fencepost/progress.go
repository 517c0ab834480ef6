package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/internal/simulate"
)

const progressWidth = 79 // the last column would wrap on some terminals

// progress shows where a run stands: on a terminal one line that is drawn over,
// elsewhere a line when a way is done.
type progress struct {
	out    io.Writer
	rounds int
	drawn  bool // draws over its line
	quiet  bool
	last   string
}

func newProgress(out io.Writer, rounds int, quiet bool) *progress {
	return &progress{out: out, rounds: rounds, drawn: terminal(out), quiet: quiet}
}

func (p *progress) observe(at simulate.Progress) {
	switch {
	case p.drawn:
		p.draw(at)
	case !p.quiet && at.Round == p.rounds && at.Event.Writer == "A" && answered(at.Event):
		fmt.Fprintf(p.out, "%s: %d of %d rounds\n", at.Way, at.Round, p.rounds)
	}
}

func answered(e simulate.Event) bool {
	return e.Kind == simulate.Accepted || e.Kind == simulate.Refused
}

func (p *progress) draw(at simulate.Progress) {
	const width = 20
	ways := simulate.Ways()
	done, all := slices.Index(ways, at.Way)*p.rounds+at.Round-1, len(ways)*p.rounds
	filled := done * width / all
	line := fmt.Sprintf("%s%s %*d/%d  %-16s  %s", strings.Repeat("█", filled), strings.Repeat("░", width-filled),
		len(fmt.Sprint(all)), done, all, at.Way, scene(at.Event))
	if line != p.last {
		p.put(line)
	}
}

// scene is what goes on after e.
func scene(e simulate.Event) string {
	switch {
	case e.Kind == simulate.Stopped:
		return "A is stopped"
	case e.Kind == simulate.Continued || e.Writer == "A" && answered(e):
		return "A wakes up and writes"
	case e.Writer == "A":
		return "A has the lock"
	case e.Kind == simulate.Asks:
		return "A sleeps, B waits"
	default:
		return "A sleeps, B has the lock"
	}
}

// clear leaves the line empty for what comes.
func (p *progress) clear() {
	if p.drawn && p.last != "" {
		p.put("")
		fmt.Fprint(p.out, "\r")
	}
}

func (p *progress) put(line string) {
	fmt.Fprint(p.out, "\r", line, strings.Repeat(" ", max(0, progressWidth-utf8.RuneCountInString(line))))
	p.last = line
}

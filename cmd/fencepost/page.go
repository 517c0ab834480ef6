package main

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/simulate"
)

// page is what a run prints: one round, the figures, the verdict.
func page(report *simulate.Report, s style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.bold("One lock, two writers, and a pause"))
	fmt.Fprintln(&b, fill(story(report), 0))
	guarded, unguarded := report.Of(simulate.Guarded).Example, report.Of(simulate.Unguarded).Example
	fmt.Fprintf(&b, "%s\n\n%s\n", s.bold("A guarded round as it happened"), timeline(guarded, s))
	fmt.Fprintf(&b, "%s\n\n", fill(twin(unguarded), 0))
	fmt.Fprintf(&b, "%s\n\n%s\n", s.bold(fmt.Sprintf("All four ways, %s each", rounds(report.Rounds))), table(report, s))
	fmt.Fprint(&b, verdict(report, s))
	return b.String()
}

func story(r *simulate.Report) string {
	stopped := "stopped (SIGSTOP)"
	if r.Pause != "SIGSTOP" {
		stopped = "paused (inside the process: this system has no SIGSTOP)"
	}
	return fmt.Sprintf("Two processes add to one account under one lock (ttl %dms): A adds 50, B adds 20. "+
		"A is %s between its read and its write until its lease is over and B has written. "+
		"Then A wakes up and writes what it had worked out before.\n"+
		"Lock: %s. Account: %s.\n", r.TTL, stopped, r.Issuer, r.Store)
}

func rounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// twin says how the same moment came out without a guard.
func twin(r *simulate.Round) string {
	end := r.Events[len(r.Events)-1]
	text := fmt.Sprintf("The same moment unguarded: A's write of %d is %s, and the balance is %d.",
		end.Balance, end.Kind, r.Final)
	if lost := r.Lost(); len(lost) > 0 {
		text += " Acknowledged and gone: " + strings.Join(lost, ", ") + "."
	}
	return text
}

// fill breaks text into lines of a page, each indented.
func fill(text string, indent int) string {
	const width = 80
	var b strings.Builder
	for _, paragraph := range strings.Split(text, "\n") {
		column := 0
		for _, word := range strings.Fields(paragraph) {
			if column > 0 && column+1+len(word) > width-indent {
				b.WriteString("\n")
				column = 0
			}
			if column == 0 {
				b.WriteString(strings.Repeat(" ", indent))
			} else {
				b.WriteString(" ")
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/internal/simulate"
)

const laneWidth = 31

// lane is one writer's column: what it just did, and how it goes on below.
type lane struct{ now, then string }

// timeline draws a round: a row for each event at the time it happened, a lane
// for each writer, and the balance where it was written.
//
//	┃ holds the lock    ┊ waits for it    z stands still
func timeline(r *simulate.Round, s style) string {
	events := slices.Clone(r.Events)
	slices.SortStableFunc(events, func(a, b simulate.Event) int { return a.At.Compare(b.At) })
	lanes := map[string]*lane{"A": {}, "B": {}}
	balances := map[string]int64{"A": r.Final, "B": r.Between}
	var b strings.Builder
	b.WriteString(s.dim(row("ms", "A", "B", "balance")))
	balance := fmt.Sprint(firstRead(events))
	for _, e := range events {
		if answered(e) {
			balance = fmt.Sprint(balances[e.Writer])
		}
		if !lanes[e.Writer].note(r.Way, e) {
			continue
		}
		if e.Writer == "B" && e.Kind == simulate.Holds {
			b.WriteString(row("", lanes["A"].now, "┊", ""))
			lanes["A"].now += "  its lease is over"
		}
		ms := float64(e.At.Sub(events[0].At).Microseconds()) / 1000
		b.WriteString(colour(s, e, row(fmt.Sprintf("%.1f", ms), lanes["A"].now, lanes["B"].now, balance)))
		lanes["A"].now, lanes["B"].now, balance = lanes["A"].then, lanes["B"].then, ""
	}
	b.WriteString(s.dim(row("", "┃ has the lock   z stands", "┊ waits", "")))
	return b.String()
}

// note reports whether e has a row of its own.
func (l *lane) note(way simulate.Way, e simulate.Event) bool {
	switch e.Kind {
	case simulate.Asks:
		l.now, l.then = "┊ asks for the lock, waits", "┊"
		return e.Writer == "B"
	case simulate.Holds:
		l.now, l.then = "┃ gets the lock, token "+short(e.Number), "┃"
	case simulate.Claims:
		l.now = "┃ claims: mark is now " + short(e.Number)
	case simulate.Reads:
		l.now = fmt.Sprintf("┃ reads %d", e.Balance)
	case simulate.Checked:
		l.now = "┃ " + before[way] + ": yes"
	case simulate.Stopped:
		l.now, l.then = "z stopped before its write", "z"
	case simulate.Continued:
		l.now, l.then = "│ wakes up, knows of nothing", "│"
	case simulate.Accepted:
		l.now, l.then = fmt.Sprintf("✓ writes %d: accepted", e.Balance), ""
	case simulate.Refused:
		l.now, l.then = fmt.Sprintf("✗ writes %d: REFUSED, stale", e.Balance), ""
	default:
		return false
	}
	return true
}

// short is the end of a number, which is where two of them differ.
func short(number int64) string { return fmt.Sprintf("…%07d", number%10_000_000) }

func firstRead(events []simulate.Event) int64 {
	i := slices.IndexFunc(events, func(e simulate.Event) bool { return e.Kind == simulate.Reads })
	return events[max(i, 0)].Balance
}

func row(ms, a, b, balance string) string {
	return strings.TrimRight(fmt.Sprintf("%8s  %s%s%s", ms, pad(a), pad(b), balance), " ") + "\n"
}

// pad counts characters, not bytes.
func pad(text string) string {
	return text + strings.Repeat(" ", max(1, laneWidth-utf8.RuneCountInString(text)))
}

func colour(s style, e simulate.Event, line string) string {
	text := strings.TrimSuffix(line, "\n")
	switch e.Kind {
	case simulate.Stopped, simulate.Continued:
		return s.yellow(text) + "\n"
	case simulate.Refused:
		return s.green(text) + "\n"
	}
	return line
}

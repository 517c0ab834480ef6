package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// column is a column of the table after the name and the baseline.
type column int

const (
	overLink column = iota
	serverCPU
	throughput
	overLoopback
	packets
	allocations
	columns // the number of columns
)

const tableHead = "" +
	"| | ÷ | link 1 · 16 | server CPU 1 · 16 | throughput 16 · 64 | loopback 1 · 16 | packets | allocations |\n" +
	"|---|---|--:|--:|--:|--:|--:|--:|\n"

// row is a row of the table. Its String is Markdown.
type row struct {
	name, baseline string
	cells          [columns][]value
}

// value is a figure: the median over the rounds, its quartiles, and its target.
type value struct {
	median, q1, q3 float64
	target         bound
	noise          bool // the quartiles are shown too
}

// bound is a target. The zero bound is no target.
type bound struct {
	kind  boundKind
	limit float64
}

type boundKind int

const (
	noBound boundKind = iota
	highest
	lowest
)

func atMost(limit float64) bound  { return bound{highest, limit} }
func atLeast(limit float64) bound { return bound{lowest, limit} }

// met compares the value as it is printed.
func (b bound) met(shown float64) bool {
	switch b.kind {
	case highest:
		return shown <= b.limit
	case lowest:
		return shown >= b.limit
	default:
		return true
	}
}

func (b bound) String() string {
	switch b.kind {
	case highest:
		return fmt.Sprintf(" (≤ %v)", b.limit)
	case lowest:
		return fmt.Sprintf(" (≥ %v)", b.limit)
	default:
		return ""
	}
}

// middle needs at least one value.
func middle(all []float64, target bound) value {
	all = slices.Sorted(slices.Values(all))
	return value{median: quantile(all, 0.5), q1: quantile(all, 0.25), q3: quantile(all, 0.75), target: target}
}

// quantile returns the p-quantile of sorted values, by linear interpolation between the
// two nearest (Hyndman and Fan's type 7, which R and NumPy use). There must be at least
// one value.
func quantile(sorted []float64, p float64) float64 {
	below, share := math.Modf(p * float64(len(sorted)-1))
	i := int(below)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + share*(sorted[i+1]-sorted[i])
}

// round keeps three significant digits and at most three decimals.
func round(x float64) (rounded float64, decimals int) {
	switch abs := math.Abs(x); {
	case abs == 0:
	case abs < 0.9995:
		decimals = 3
	case abs < 9.995:
		decimals = 2
	case abs < 99.95:
		decimals = 1
	}
	scale := math.Pow10(decimals)
	return math.Round(x*scale) / scale, decimals
}

func number(x float64) string {
	rounded, decimals := round(x)
	return fmt.Sprintf("%.*f", decimals, rounded)
}

func (v value) String() string {
	text := number(v.median)
	if v.noise {
		text += fmt.Sprintf(" [%s–%s]", number(v.q1), number(v.q3))
	}
	if shown, _ := round(v.median); !v.target.met(shown) {
		text = "**" + text + "**" // the target is missed
	}
	return text + v.target.String()
}

func (r row) String() string {
	line := "| " + r.name + " | " + r.baseline + " |"
	for _, cell := range r.cells {
		var texts []string
		for _, v := range cell {
			texts = append(texts, v.String())
		}
		line += strings.TrimRight(" "+strings.Join(texts, " · "), " ") + " |"
	}
	return line + "\n"
}

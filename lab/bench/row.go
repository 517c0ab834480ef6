package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// column is a figure of a block. A counted one does not depend on the machine, and is shown
// as it is. The others are shown as ratios.
type column struct {
	title   string
	counted bool
}

// An operation is one of a worker, a waiter's acquisition, or the renewal of a lease. Times
// are in microseconds.
var (
	link        = column{"link", false}
	handOver    = column{"hand-over", false}
	clientCPU   = column{"client CPU", false} // for each operation, as the next
	serverCPU   = column{"server CPU", false}
	throughput  = column{"throughput", false} // operations a second
	packets     = column{"packets", true}     // for each operation
	fairness    = column{"fairness", true}    // Jain's
	memory      = column{"memory", false}     // bytes for each lease
	allocations = column{"allocations", true} // for each operation

	// columns are in the order of a table.
	columns = []column{link, handOver, clientCPU, serverCPU, throughput, packets, fairness, memory, allocations}
)

// row has the figures of one contender in one setting.
type row struct {
	contest, contender, baseline string

	workers  int               // or waiters, or leases
	ratios   map[column]spread // to the baseline; none for the baseline itself
	aa       map[column]spread // the baseline's twin to the baseline: the noise
	measured reading           // medians
}

// spread is a median over the rounds and its quartiles.
type spread struct{ q1, median, q3 float64 }

// median sorts the values, of which there must be at least one.
func median(all []float64) float64 {
	slices.Sort(all)
	return quantile(all, 0.5)
}

// quantile returns the p-quantile of sorted values, by linear interpolation between the
// two nearest (Hyndman and Fan's type 7, which R and NumPy use).
func quantile(sorted []float64, p float64) float64 {
	below, share := math.Modf(p * float64(len(sorted)-1))
	i := int(below)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + share*(sorted[i+1]-sorted[i])
}

// number prints three significant digits, and at most three decimals.
func number(x float64) string {
	decimals := 0
	for limit := 99.95; decimals < 3 && math.Abs(x) < limit; limit /= 10 {
		decimals++
	}
	return fmt.Sprintf("%.*f", decimals, x)
}

// cell returns the text of the row in a column, or "" if it has none.
func (r row) cell(c column) string {
	v, has := r.measured[c]
	switch aa := r.aa[c]; {
	case !has:
		return ""
	case c.counted:
		return number(v)
	case r.contender == r.baseline:
		return fmt.Sprintf("%s [%s–%s]", number(aa.median), number(aa.q1), number(aa.q3))
	default:
		return number(r.ratios[c].median)
	}
}

// printMarkdown prints the table of a contest: a line for each contender, in which a column
// has a value for each number of workers.
func printMarkdown(out io.Writer, rows []row) error {
	var contenders []string
	for _, r := range rows {
		if !slices.Contains(contenders, r.contender) {
			contenders = append(contenders, r.contender)
		}
	}
	lines := make([]string, len(contenders))
	for i, name := range contenders {
		if name == rows[0].baseline {
			name = "a/a"
		}
		lines[i] = "| " + name + " |"
	}
	head, rule := fmt.Sprintf("| %s ÷ %s |", rows[0].contest, rows[0].baseline), "|---|"
	for _, c := range columns {
		var workers []string
		for i, name := range contenders {
			var values []string
			for _, r := range rows {
				text, n := r.cell(c), fmt.Sprint(r.workers)
				if r.contender == name && text != "" {
					values = append(values, text)
				}
				if text != "" && !slices.Contains(workers, n) {
					workers = append(workers, n)
				}
			}
			if workers != nil {
				lines[i] += strings.TrimRight(" "+strings.Join(values, " · "), " ") + " |"
			}
		}
		if workers != nil {
			head, rule = head+" "+c.title+", "+strings.Join(workers, " · ")+" |", rule+"--:|"
		}
	}
	_, err := fmt.Fprintf(out, "%s\n%s\n%s\n\n", head, rule, strings.Join(lines, "\n"))
	return err
}

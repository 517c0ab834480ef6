package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// column is a figure of a block. A counted one does not depend on the machine, and is shown
// as it is. The others are shown as ratios.
type column struct {
	title, name, unit string
	counted           bool
}

// key is the key of the measured value.
func (c column) key() string { return c.name + "_" + c.unit }

// An operation is one of a worker, a waiter's acquisition, or the renewal of a lease.
var (
	link        = column{"link", "link_time", "us", false}
	handOver    = column{"hand-over", "hand_over", "us", false}
	clientCPU   = column{"client CPU", "client_cpu", "us_per_operation", false}
	serverCPU   = column{"server CPU", "server_cpu", "us_per_operation", false}
	throughput  = column{"throughput", "throughput", "operations_per_s", false}
	packets     = column{"packets", "packets", "per_operation", true}
	fairness    = column{"fairness", "fairness", "jain", true}
	memory      = column{"memory", "memory", "bytes_per_lease", false}
	allocations = column{"allocations", "allocations", "per_operation", true}

	// columns are in the order of a table.
	columns = []column{link, handOver, clientCPU, serverCPU, throughput, packets, fairness, memory, allocations}
)

// row has the figures of one contender in one setting. With -json it is a line.
type row struct {
	Group     string `json:"group"`
	Contest   string `json:"contest"`
	Contender string `json:"contender"`
	Baseline  string `json:"baseline"`
	Workers   int    `json:"workers"` // or waiters, or leases
	Clients   int    `json:"clients"` // that they share

	Ratios   map[string]spread  `json:"ratios"`   // to the baseline; none for the baseline itself
	AA       map[string]spread  `json:"a_a"`      // the baseline's twin to the baseline: the noise
	Measured map[string]float64 `json:"measured"` // medians; each key ends with the unit
	Versions map[string]string  `json:"versions"` // of Go and the server
}

// spread is a median over the rounds and its quartiles.
type spread struct {
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
}

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
	v, has := r.Measured[c.key()]
	switch aa := r.AA[c.name]; {
	case !has:
		return ""
	case c.counted:
		return number(v)
	case r.Contender == r.Baseline:
		return fmt.Sprintf("%s [%s–%s]", number(aa.Median), number(aa.Q1), number(aa.Q3))
	default:
		return number(r.Ratios[c.name].Median)
	}
}

func printJSON(out io.Writer, rows []row) error {
	encoder := json.NewEncoder(out)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// printMarkdown prints the table of a contest: a line for each contender, in which a column
// has a value for each number of workers.
func printMarkdown(out io.Writer, rows []row) error {
	var contenders []string
	for _, r := range rows {
		if !slices.Contains(contenders, r.Contender) {
			contenders = append(contenders, r.Contender)
		}
	}
	lines := make([]string, len(contenders))
	for i, name := range contenders {
		if name == rows[0].Baseline {
			name = "a/a"
		}
		lines[i] = "| " + name + " |"
	}
	head, rule := fmt.Sprintf("| %s ÷ %s |", rows[0].Contest, rows[0].Baseline), "|---|"
	for _, c := range columns {
		var workers []string
		for i, name := range contenders {
			var values []string
			for _, r := range rows {
				text, n := r.cell(c), fmt.Sprint(r.Workers)
				if r.Contender == name && text != "" {
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

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/fencepost/fencepost/bench/measure"
)

// lines prints each row as a line of JSON.
func lines(out io.Writer) func(measure.Row) error {
	return func(row measure.Row) error { return json.NewEncoder(out).Encode(row) }
}

// table prints each row as soon as it is there, beneath a head.
func table(out io.Writer, all []measure.Measurement) (func(measure.Row) error, error) {
	name, baseline := len("name"), len("baseline")
	for _, m := range all {
		for _, row := range m.Rows() {
			name = max(name, utf8.RuneCountInString(row.Name))
			baseline = max(baseline, utf8.RuneCountInString(row.Baseline))
		}
	}
	line := func(cells ...any) error {
		layout := fmt.Sprintf("%%-8s  %%-%ds  %%-%ds  %%6s  %%-14s %%6s  %%-3s  %%s\n", name, baseline)
		_, err := fmt.Fprintf(out, layout, cells...)
		return err
	}
	show := func(r measure.Row) error {
		target, met := "–", "–"
		if r.Target != nil {
			target, met = fmt.Sprintf("%.3f", *r.Target), "no"
			if r.AtLeast {
				target = "≥" + target
			}
			if *r.Met {
				met = "yes"
			}
		}
		return line(r.Group, r.Name, r.Baseline, fmt.Sprintf("%.3f", r.Ratio),
			fmt.Sprintf("%.3f–%.3f", r.Q1, r.Q3), target, met, fmt.Sprint(r.Operations))
	}
	return show, line("group", "name", "baseline", "ratio", "quartiles", "target", "met", "operations")
}

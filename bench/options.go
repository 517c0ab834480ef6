package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
)

// What the figures of a group share. A quick one has ten seconds more for its
// server, and for figures that spend more than their share.
const (
	fullBudget  = 5 * time.Minute
	quickBudget = 30 * time.Second
)

// options are the flags.
type options struct {
	plan   measure.Plan
	json   bool
	groups []group
}

// parse returns flag.ErrHelp when it was asked for help, which it prints.
func parse(all []group, args []string, errs io.Writer) (options, error) {
	o := options{plan: measure.Plan{Budget: fullBudget}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is told by whom it is returned to
	quick := flags.Bool("quick", false, "measure each group within 40 s")
	flags.BoolVar(&o.json, "json", false, "print one JSON object a line")
	only := flags.String("only", names(all), "measure these `groups` alone, separated by commas")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(errs)
			fmt.Fprintln(errs, "usage: go run . [-quick] [-json] [-only groups]")
			flags.PrintDefaults()
		}
		return o, err
	}
	if *quick {
		o.plan.Budget = quickBudget
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	wanted := strings.Split(*only, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(g group) bool { return g.name == name }) {
			return o, fmt.Errorf("no group %q: there are %s", name, names(all))
		}
	}
	for _, g := range all {
		if slices.Contains(wanted, g.name) {
			o.groups = append(o.groups, g)
		}
	}
	return o, nil
}

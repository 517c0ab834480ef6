// Command bench measures the cost of Fencepost relative to a program without it and to
// other libraries:
//
//	go run -C lab/bench .                    every group, about twelve minutes
//	go run -C lab/bench . -quick             every group, about a minute
//	go run -C lab/bench . -only write,http   two groups
//
// It starts its own servers and ends them. Its PostgreSQL waits for the disk. It prints
// one Markdown table. Most rows are ratios of an operation to the baseline in the second
// column. The rows a/a are the baseline divided by itself, with quartiles: the noise.
//
//	link            over a connection with a round trip of 0.25 ms, the median time of
//	                an operation: 1 worker · 16 workers of one client
//	server CPU      of the server's processes for each operation: 1 worker · 16 workers
//	throughput      operations a second of a server that 16 · 64 clients saturate
//	loopback        as link, without the link
//	packets         of one operation, as the client writes them to its connections
//	allocations     of one operation, in the client
//
// A figure that is not a ratio has its unit in its name, and is in the column of the
// connection over which it was measured.
//
// # Exit status
//
//	0    measured; a figure that misses its target is a cell and no error
//	2    nothing is known: bad flags, no server, an operation that failed
//	130  interrupted (128 and the signal's number); no server is left
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
)

func main() {
	relayIfAsked()
	os.Exit(run(groups(), os.Args[1:], os.Stdout, os.Stderr))
}

// measurement has rows in the table: a [contest] or a figure.
type measurement interface {
	measure(ctx context.Context, e *env) ([]row, error)
}

// figure is a measurement by a function. It is called inside [opening].
type figure func(ctx context.Context, e *env) []row

func (f figure) measure(ctx context.Context, e *env) (rows []row, err error) {
	err = opening(func() { rows = f(ctx, e) })
	return rows, err
}

// group is a group of measurements that -only selects.
type group struct {
	name string
	all  []measurement
}

// groups returns the groups in the order in which they are measured.
func groups() []group {
	return []group{
		{"redis", redisMeasurements()}, {"handover", handoverMeasurements()}, {"renew", []measurement{figure(keptAlive)}},
		{"pglock", pglockMeasurements()}, {"write", writeMeasurements()}, {"http", httpMeasurements()},
		{"scale", scaleMeasurements()},
	}
}

func names(all []group) string {
	var names []string
	for _, g := range all {
		names = append(names, g.name)
	}
	return strings.Join(names, ",")
}

// pace is the duration of the measurements.
type pace struct {
	block  time.Duration // of one subject
	budget time.Duration // of one contest in one setting; there are at least three rounds
	quick  bool          // figures of large sizes take smaller ones
	kept   keeping       // the leases that are kept alive
}

var (
	full  = pace{block: 80 * time.Millisecond, budget: 8 * time.Second, kept: keeping{10_000, 15 * time.Second}}
	quick = pace{block: 20 * time.Millisecond, quick: true, kept: keeping{2000, 4500 * time.Millisecond}}
)

// parse returns flag.ErrHelp after it has printed the help.
func parse(all []group, args []string, errs io.Writer) (pace, []group, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error
	isQuick := flags.Bool("quick", false, "measure in about a minute, and less of what is large")
	only := flags.String("only", names(all), "measure these `groups` alone, separated by commas")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(errs)
			fmt.Fprintln(errs, "usage: go run -C lab/bench . [-quick] [-only groups]")
			flags.PrintDefaults()
		}
		return pace{}, nil, err
	}
	if flags.NArg() > 0 {
		return pace{}, nil, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	wanted := strings.Split(*only, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(g group) bool { return g.name == name }) {
			return pace{}, nil, fmt.Errorf("no group %q: there are %s", name, names(all))
		}
	}
	p := full
	if *isQuick {
		p = quick
	}
	return p, slices.DeleteFunc(slices.Clone(all), func(g group) bool { return !slices.Contains(wanted, g.name) }), nil
}

// run returns the exit status.
func run(all []group, args []string, out, errs io.Writer) int {
	ctx, stop := cli.UntilSignal(context.Background())
	defer stop()
	err := measureAll(ctx, all, args, out, errs)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // the other error follows from it
	}
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	return cli.Status("bench", err, errs)
}

// measureAll prints each row as soon as it is measured. When it returns, its servers have
// ended.
func measureAll(ctx context.Context, all []group, args []string, out, errs io.Writer) (err error) {
	p, chosen, err := parse(all, args, errs)
	if err != nil {
		return err
	}
	e := &env{pace: p}
	defer func() { err = errors.Join(err, e.close()) }()
	if _, err := io.WriteString(out, tableHead); err != nil {
		return err
	}
	for _, g := range chosen {
		for _, m := range g.all {
			rows, err := m.measure(ctx, e)
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			for _, r := range rows {
				if _, err := io.WriteString(out, r.String()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

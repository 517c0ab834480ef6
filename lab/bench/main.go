// Command bench measures the cost of Fencepost relative to a program without it and to
// other libraries:
//
//	go run -C lab/bench .                    every group, about fourteen minutes
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
//
// # The files, in reading order
//
//	main.go      the groups and their order; the flags; how long a full and a quick run measure;
//	             the exit status
//	contest.go   operations against a baseline: the settings, which columns each fills, rounds
//	             in which the sides take turns, the rows a/a
//	table.go     the columns; medians, quartiles and rounding; a missed target is bold
//	servers.go   the servers and their settings; databases; the CPU time of a server; clients
//	             and pools; how an error ends a preparation
//	link.go      the link with a round trip of 0.25 ms: a relay process, and its delay
//	wire.go      how packets and commands of Redis are counted
//	locks.go     groups redis and pglock, with their targets: acquire and release, refused, a
//	             guarded SET; the tenth RenewAll of a connection
//	peer.go      the other libraries and their settings: redislock, redsync, rueidislock; our
//	             issuers with a Locker and without; SET NX PX
//	handover.go  group handover: how many waiters, which sides, the targets; a round of it; the
//	             lower limit: a channel and one request
//	crowd.go     waiters that compete for one lock: hand-over, wait, fairness, commands for each
//	             acquisition; "two waiters hold it at the same time"
//	renew.go     group renew: CPU, packets and bytes of ten thousand leases that are kept alive,
//	             by one renewer or by a goroutine each
//	write.go     group write, with its targets: guarded writes and transactions in PostgreSQL, a
//	             protected table, refused writes, Mint, the same by hand; accounts and tokens
//	once.go      group once, with its targets: a unit of work, beside a guarded write that inserts
//	             it by hand, in PostgreSQL and Redis
//	http.go      group http, with its targets: the middleware over connections and in memory,
//	             signed and refused
//	scale.go     group scale: a million marks, writes beside a prune, a history that is judged,
//	             schedules that are explored; what a quick run makes smaller
//	os_linux.go  precise sleeps; the CPU time of this process and of a server's processes
//	os_other.go  other systems, where bench fails
//	tables.sql   the tables of accounts: plain, with marks in their rows, protected; the marks
//	             of the writes by hand
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
		{"pglock", pglockMeasurements()}, {"write", writeMeasurements()}, {"once", onceMeasurements()}, {"http", httpMeasurements()},
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

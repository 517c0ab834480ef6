// Command bench measures the cost of Fencepost relative to a program without it and to
// other libraries. docs/performance.md explains the figures.
//
//	go run -C lab/bench .                     every group, about ten minutes
//	go run -C lab/bench . -quick              shorter, and less of what is large
//	go run -C lab/bench . -only redis,pglock  two groups
//
// It starts its own servers and ends them. Its PostgreSQL waits for the disk. It prints a
// Markdown table for each contest as soon as it is measured.
//
// # Exit status
//
//	0    measured
//	2    nothing is known: bad flags, no server, an operation that failed
//	130  interrupted (128 and the signal's number); no server is left
//
// # The files, in reading order
//
//	main.go         the groups and their order; the flags
//	contest.go      contenders against a baseline: settings, rounds in random order, the twin;
//	                workers that repeat an operation; how long a full and a quick run measure
//	row.go          the columns; medians and quartiles; a table as Markdown
//	servers.go      the servers and their settings; their CPU time; clients and pools
//	link.go         the route over a link; connections that count packets
//	locks.go        groups redis and pglock; the other libraries and their settings
//	handover.go     group handover; "two waiters hold it at the same time"
//	renew.go        group renew
//	write.go        group write
//	tables.sql      the accounts, and the marks of the writes by hand
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/test/slowlink"
)

// group is a group of contests that -only selects.
type group struct {
	name     string
	contests []contest
}

// groups are in the order in which they are measured.
var groups = []group{
	{"redis", redisContests}, {"handover", handoverContests}, {"renew", []contest{keepingAlive(10_000)}},
	{"pglock", pglockContests}, {"write", writeContests},
}

func main() {
	slowlink.ServeIfAsked()
	quick := flag.Bool("quick", false, "measure in two minutes, with more noise")
	only := flag.String("only", "redis,handover,renew,pglock,write", "measure these `groups` alone, separated by commas")
	flag.Parse()
	ctx, stop := cli.UntilSignal(context.Background())
	err := fmt.Errorf("unknown argument %q", flag.Arg(0))
	if flag.NArg() == 0 {
		err = measure(ctx, newEnv(*quick), strings.Split(*only, ","), func(rows []row) error { return printMarkdown(os.Stdout, rows) })
	}
	stop()
	os.Exit(cli.Status("bench", err, os.Stderr))
}

// measure shows the rows of a contest as soon as they are measured. When it returns, the
// servers have ended.
func measure(ctx context.Context, e *env, names []string, show func([]row) error) (err error) {
	for _, name := range names {
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			return fmt.Errorf("no group %q", name)
		}
	}
	defer func() { err = errors.Join(err, e.close()) }()
	for _, g := range groups {
		for _, c := range g.contests {
			if !slices.Contains(names, g.name) {
				continue
			}
			rows, err := c.measure(ctx, e)
			if cause := context.Cause(ctx); cause != nil {
				return cause // an error follows from it
			}
			if err != nil {
				return err
			}
			if err := show(rows); err != nil {
				return err
			}
		}
	}
	return nil
}

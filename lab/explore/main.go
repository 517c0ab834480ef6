// Command explore runs a lock, a network, a guard and a few holders together in simulated
// time, thousands of schedules per second: see docs/explore.md.
//
//	go run -C lab ./explore --schedules 10000
//	go run -C lab ./explore --mutants
//
// # Exit status
//
//	0    no rule was broken, and the control went wrong; or every mutant was found
//	1    a rule was broken, or the control did not go wrong, or a mutant was not found
//	2    no result: bad flags, a file that was not written
//	130  interrupted (128 and the signal's number)
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/lab/dst"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // a closed output is an error of the write
	os.Exit(run(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// run returns the exit status.
func run(args []string, std cli.Streams) int {
	helped := false
	parser, err := kong.New(&exploreCmd{}, kong.Name("explore"), kong.Writers(std.Out, std.Err), kong.Bind(std), kong.Exit(func(int) { helped = true }),
		kong.Vars{"faults": strings.Join(dst.FaultNames(), ", ")}, kong.Description(exploreCmd{}.Help()),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 90}))
	if err != nil {
		return status(err, std)
	}
	command, err := parser.Parse(args)
	if helped {
		return 0
	}
	if err != nil {
		return status(fmt.Errorf("%w (see explore --help)", err), std)
	}
	return status(command.Run(), std)
}

func status(err error, std cli.Streams) int { return cli.Status("explore", err, std.Err) }

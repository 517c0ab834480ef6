// Package leaktest runs the tests of a package, and fails if they leave a goroutine. Their
// temporary files, those of their servers and of the processes that they start are in one
// folder, which is removed even if the test process is killed.
package leaktest

import (
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// Main runs the tests and exits. If they pass and a goroutine is left, the exit status
// is 1, and the goroutine's stack is printed.
//
// A goroutine may end late: pgx closes a cancelled connection in a goroutine that waits
// for the server, which can take long if the server is busy. The limit of two minutes
// ends only a hang.
func Main(m goleak.TestingM) {
	end, err := serverproc.OwnTemp("")
	if err != nil {
		fmt.Fprintln(os.Stderr, "leaktest: a folder for temporary files:", err)
		os.Exit(1)
	}
	find := func() error { return goleak.Find() }
	code := run(m, os.Stderr, 2*time.Minute, find)
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, "leaktest: the tests leave temporary files:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run returns the exit status. It repeats find until no goroutine is left or the limit
// has passed. One call of goleak.Find waits for about half a second.
func run(m goleak.TestingM, out io.Writer, limit time.Duration, find func() error) int {
	if code := m.Run(); code != 0 {
		return code
	}
	leak := find()
	for start := time.Now(); leak != nil && time.Since(start) < limit; {
		leak = find()
	}
	if leak == nil {
		return 0
	}
	fmt.Fprintln(out, "the tests pass and leave goroutines behind:", leak)
	return 1
}

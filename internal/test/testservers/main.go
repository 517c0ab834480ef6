// Command testservers starts this machine's PostgreSQL, Redis and MariaDB once, and runs
// its arguments as a command with their URLs in the environment, under the names that
// package testenv reads. The test processes of a run then share them:
//
//	go run ./internal/test/testservers go test ./...
//
// A server whose URL is in the environment is not started. All temporary files of the run
// are in one folder, in memory if this machine has a file system with enough room for that.
// The exit status is the command's, or 1 if a server did not start. Servers and folder are
// removed at the end of this process, however it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// interruptTime is how long the command may continue after an interrupt.
const interruptTime = 15 * time.Second

// shared are the servers that any number of test processes can use at once.
var shared = []struct {
	variable string
	start    func() (*testenv.Server, error)
}{
	{testenv.EnvPostgres, func() (*testenv.Server, error) { return testenv.StartPostgres("fsync=off", "max_connections=1000") }},
	{testenv.EnvRedis, testenv.StartRedis},
	{testenv.EnvMariaDB, func() (*testenv.Server, error) { return testenv.StartMariaDB() }},
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: testservers command [argument ...]")
		os.Exit(2)
	}
	serverproc.Sweep(os.TempDir())
	end, err := serverproc.OwnTemp(memory())
	status := 1
	if err == nil {
		status, err = run(os.Args[1:])
		err = errors.Join(err, end())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testservers:", err)
	}
	os.Exit(status)
}

func run(args []string) (status int, err error) {
	ctx, unregister := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer unregister()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptTime
	urls, stop, err := startAll()
	defer stop()
	if err != nil {
		return 1, err
	}
	cmd.Env = append(cmd.Environ(), urls...)
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// startAll starts the servers whose URLs are not in the environment, concurrently, and
// returns their variables. stop ends the servers that were started.
func startAll() (urls []string, stop func(), err error) {
	servers, errs := make([]*testenv.Server, len(shared)), make([]error, len(shared))
	var starting sync.WaitGroup
	for i, s := range shared {
		if os.Getenv(s.variable) == "" {
			starting.Go(func() { servers[i], errs[i] = s.start() })
		}
	}
	starting.Wait()
	for i, server := range servers {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", shared[i].variable, errs[i])
		} else if server != nil {
			urls = append(urls, shared[i].variable+"="+server.URL)
		}
	}
	stop = func() {
		for i, server := range servers {
			if server != nil && errs[i] == nil {
				_ = server.Stop()
			}
		}
	}
	return urls, stop, errors.Join(errs...)
}

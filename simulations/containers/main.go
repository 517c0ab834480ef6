// Command containers starts PostgreSQL, Redis and a spare of each in containers,
// and MariaDB where this machine has none, and runs its arguments in the root of
// the repository with their URLs in the environment, under the names that the
// tests read:
//
//	go run -C simulations/containers . -- go test ./...
//
// FENCEPOST_TEST_POSTGRES_IMAGE, FENCEPOST_TEST_REDIS_IMAGE and
// FENCEPOST_TEST_MARIADB_IMAGE name other images than the official postgres:17,
// redis:7 and mariadb:11; they take POSTGRES_PASSWORD, MARIADB_ROOT_PASSWORD and
// options after the image as the official ones do.
//
// The arguments have this process's input and output, and their exit status
// becomes its own (`go run` turns every failure into 1). The containers are
// removed at the end, after an interrupt or a SIGTERM as well.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql" // and the driver "mysql" of wait.ForSQL
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// interruptTime is what the arguments have to end after an interrupt.
const interruptTime = 15 * time.Second

// Exit statuses of this command's own.
const (
	statusFailed      = 1
	statusUsage       = 2
	statusInterrupted = 130
)

func main() {
	tclog.SetDefault(tclog.NewNoopLogger())
	_ = mysql.SetLogger(&mysql.NopLogger{})
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run -C simulations/containers . -- command [argument ...]")
		os.Exit(statusUsage)
	}
	status, err := launch(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers:", err)
	}
	os.Exit(status)
}

// launch starts the servers, runs the arguments and removes the servers. The
// error is of the servers; how the arguments ended is the status alone.
func launch(args []string) (status int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := root()
	if err != nil {
		return statusFailed, err
	}
	servers, err := start(ctx, all())
	defer func() {
		if failed := servers.remove(); failed != nil {
			status, err = max(status, statusFailed), errors.Join(err, failed)
		}
	}()
	if err != nil {
		return statusFailed, err
	}
	return run(ctx, root, servers.environment(), args)
}

func run(ctx context.Context, root string, env, args []string) (status int, err error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptTime
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return statusInterrupted, nil
	case errors.As(err, &exit):
		return max(exit.ExitCode(), statusFailed), nil // -1: ended by a signal
	case err != nil:
		return statusFailed, err
	}
	return 0, nil
}

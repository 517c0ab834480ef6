package server_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/bench/server"
)

// envRole makes this test binary a process that starts a server, and is killed.
const envRole = "FENCEPOST_BENCH_SERVER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(envRole) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	_, err := server.Start(context.Background(), func(folder string) string {
		fmt.Println(folder)
		return sleeping
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent is
}

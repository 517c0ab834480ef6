// Package replicas puts a whole service to the test: two processes of it over
// one PostgreSQL, and callers in processes of their own, which take the lock on
// a real Redis and write over HTTP. One of them is stopped by the kernel where
// it hurts most, and its successor does its whole work meanwhile.
//
//	caller A ──▶ replica 1 ──┐
//	                         ├──▶ PostgreSQL
//	caller B ──▶ replica 2 ──┘
//
// All of them are this test binary, started again.
package replicas_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// envRole turns this test binary into a replica or a caller.
const envRole = "FENCEPOST_REPLICAS_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role string) error {
	w := &worker{orders: json.NewDecoder(os.Stdin), events: json.NewEncoder(os.Stdout)}
	if err := w.orders.Decode(&w.setup); err != nil {
		return fmt.Errorf("no setup: %w", err)
	}
	switch role {
	case "replica":
		return w.serve(context.Background())
	case "caller":
		return w.call(context.Background())
	}
	return fmt.Errorf("no such role: %s", role)
}

package lockset_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/lockset"
)

// asWorker turns this test binary into a worker's process.
const asWorker = "FENCEPOST_LOCKSET_TEST_WORKER=worker"

func TestMain(m *testing.M) {
	if os.Getenv("FENCEPOST_LOCKSET_TEST_WORKER") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := lockset.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

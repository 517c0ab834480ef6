package simulate_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/simulate"
)

// asWriter turns this test binary into a writer's process.
const asWriter = "FENCEPOST_SIMULATE_TEST_WRITER"

func TestMain(m *testing.M) {
	if os.Getenv(asWriter) == "" {
		os.Setenv(asWriter, "writer")
		goleak.VerifyTestMain(m)
		return
	}
	if err := simulate.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

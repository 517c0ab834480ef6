package httptoken_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/fencepost/fencepost/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "replica" {
		if err := replica(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

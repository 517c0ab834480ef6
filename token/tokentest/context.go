package tokentest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/token"
)

var last atomic.Int64

// Context returns t's own context with a valid token of each resource, for unit tests of
// code that gets its token from the context. Each token is a new acquisition: numbers
// rise from call to call, so the tokens of two calls can represent a holder and its
// successor. No resource is held, and the tokens have no lease. If a name is not valid,
// Context fails t.
func Context(t testing.TB, resources ...string) context.Context {
	t.Helper()
	ctx := t.Context()
	for _, resource := range resources {
		number := next()
		tok, err := token.New(resource, number, fmt.Sprintf("tokentest:%d:%d", os.Getpid(), number))
		if err != nil {
			t.Fatal(err)
		}
		ctx = token.NewContext(ctx, tok)
	}
	return ctx
}

// next returns a number that is at least the clock, as every issuer does. So numbers also
// rise from run to run, above the marks that a database has kept.
func next() int64 {
	for {
		old := last.Load()
		number := max(old+1, time.Now().UnixMicro()/10)
		if last.CompareAndSwap(old, number) {
			return number
		}
	}
}

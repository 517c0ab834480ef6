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

// Context returns t's own context with a valid token of each resource, for
// unit tests of code that asks its context for one. Every token is a new
// acquisition: the numbers rise from call to call, so that with the tokens of
// two calls a test plays both a holder and its successor. Nothing is held, and
// no lease stands behind the tokens. A name that no resource can have fails t.
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

// next starts at the clock, as every issuer does, so that the numbers rise
// from run to run over marks that a database has kept.
func next() int64 {
	for {
		old := last.Load()
		number := max(old+1, time.Now().UnixMicro()/10)
		if last.CompareAndSwap(old, number) {
			return number
		}
	}
}

package write

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

// branch is the resource that all workers share, as writers of one token do.
// Where rows have their own marks, each row is a resource.
const branch = "branch/7"

// account is the row of a worker, in no other's page.
func account(worker int) int64 { return 42 + 61*int64(worker) }

func resource(worker int) string { return fmt.Sprintf("account/%d", account(worker)) }

func current(resource string) token.Token {
	return token.Token{Resource: resource, Number: 33, Holder: "c2f1-worker-1"}
}

// overtaken is a token that was the newest before.
func overtaken(resource string) token.Token {
	return token.Token{Resource: resource, Number: 32, Holder: "c2f1-worker-2"}
}

// shared is a context with the token of the branch, made of it by of.
func shared(of func(resource string) token.Token) func(context.Context, int) context.Context {
	return func(ctx context.Context, _ int) context.Context { return token.NewContext(ctx, of(branch)) }
}

// own is a context with the token of the worker's row.
func own(of func(resource string) token.Token) func(context.Context, int) context.Context {
	return func(ctx context.Context, worker int) context.Context {
		return token.NewContext(ctx, of(resource(worker)))
	}
}

// Package routers guards one small service behind four routers. The guard is the
// same value each time; what differs is how a router says which account a
// request is about:
//
//	net/http   sets path values itself             guarded.Wrap(handler)
//	chi        sets path values, since v5.0.12     r.With(guarded.Wrap)
//	echo       its adapter sets them, since v5     echo.WrapMiddleware(guarded.Wrap)
//	gin        has parameters of its own           GinMiddleware(guarded.Wrap)
//
// Mount it where the route has been matched. Around the router there are no path
// values yet, and every write is answered 500: the guard does not take an account
// that it does not know for one that needs no token.
package routers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Accounts is a repository over database/sql, whose writes are guarded.
type Accounts struct {
	DB    *sql.DB
	Fence *stdsql.Guard
}

// Guarded guards the routes that have an {id}. The store is asked before the
// body is read; whether a write is applied is decided by the write itself.
func Guarded(store guard.Store) httpguard.Middleware {
	return httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: store}
}

var errSyntax = errors.New("want a number")

// Put sets the balance of an account to the number in body. The resource is made
// of the id as a number, so that "042" in a path is no second name for account 42:
// such a request has no token of the account that it writes.
func (a *Accounts) Put(ctx context.Context, id string, body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, 20))
	if err != nil {
		return err // a newer token ends the read, too
	}
	account, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return errSyntax
	}
	balance, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return errSyntax
	}
	return a.Fence.Update(ctx, fmt.Sprintf("account/%d", account), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = $2 WHERE id = $1", account, balance)
		return err
	})
}

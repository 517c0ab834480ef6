// Package routers guards one small service behind four routers. The guard is the same
// value each time. The routers differ in how they pass the account of a request:
//
//	net/http   sets path values itself             guarded.Wrap(handler)
//	chi        sets path values, since v5.0.12     r.With(guarded.Wrap)
//	echo       its adapter sets them, since v5     echo.WrapMiddleware(guarded.Wrap)
//	gin        has parameters of its own           GinMiddleware(guarded.Wrap)
//
// Mount it at a route. Around the router there are no path values yet, and every write is
// answered with 500: the guard does not let a write pass if it cannot determine the
// account.
//
//	accounts.go  the repository with its guard, and the middleware; why "042" is no second name
//	             of account 42
//	nethttp.go   the standard library's router; the handler that chi uses too: which status an
//	             error gets
//	chi.go       With at the route; why Use around the router answers every write with 500
//	echo.go      WrapMiddleware at the route; e.Pre and e.Use; why the handler answers errors
//	             itself
//	gin.go       GinMiddleware: path parameters, c.Abort, the status that the guard sees; which
//	             context the handler passes on
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

// Guarded guards the routes with an {id}. The store is checked before the body is read.
// The write itself decides whether it is applied.
func Guarded(store guard.Store) httpguard.Middleware {
	return httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: store}
}

var errSyntax = errors.New("want a number")

// Put sets the balance of an account to the number in body. The resource contains the id
// as a parsed number, so that "042" in a path is no second name for account 42: such a
// request has no token for the account that it writes.
func (a *Accounts) Put(ctx context.Context, id string, body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, 20))
	if err != nil {
		return err // a newer token ends the read too
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

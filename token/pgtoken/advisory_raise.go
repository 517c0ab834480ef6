package pgtoken

import (
	"context"
	_ "embed" // the statement
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

//go:embed advisory_raise.sql
var advisoryRaiseSQL string

// Raise implements [token.Raiser]. It raises that one resource.
func (a *Advisory) Raise(ctx context.Context, resource string, number int64) error {
	if a.Pool == nil {
		return errors.New("pgtoken: Advisory has no Pool")
	}
	if err := (token.Token{Resource: resource, Number: number, Holder: "raise"}).Check(); err != nil {
		return err
	}
	iss := &Issuer{DB: a.Pool, Schema: a.Schema}
	var raised *bool
	err := iss.call(ctx, advisoryRaiseSQL, []any{resource, number}, &raised)
	switch {
	case err != nil:
	case raised == nil:
		err = token.ErrPoisoned
	case !*raised:
		err = token.ErrLost
	}
	if err != nil {
		return fmt.Errorf("pgtoken: raise %s to %d: %w", resource, number, err)
	}
	return nil
}

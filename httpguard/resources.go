package httpguard

import (
	"errors"
	"net/http"

	"github.com/fencepost/fencepost/token"
)

var (
	errNoFunc  = errors.New("httpguard: Middleware.Resources is nil")
	errNoNames = errors.New("httpguard: Middleware.Resources names no resource for an unsafe method")
	errNoName  = errors.New("httpguard: Middleware.Resources names an empty resource")
)

// resources asks which resources r is about. No names for an unsafe method are
// more likely a forgotten case than a request that changes nothing.
func (m Middleware) resources(r *http.Request, needed bool) ([]string, error) {
	if m.Resources == nil {
		return nil, &mountError{err: errNoFunc}
	}
	names, err := m.Resources(r)
	switch {
	case errors.Is(err, token.ErrInvalid):
		return nil, err
	case err != nil:
		return nil, &mountError{err: err}
	case needed && len(names) == 0:
		return nil, &mountError{err: errNoNames}
	}
	return names, nil
}

// present returns nil if there is a token of resource, or none is needed.
// A name that a token has was checked when the token was parsed.
func present(toks []token.Token, resource string, needed bool) error {
	if _, ok := find(toks, resource); ok {
		return nil
	}
	if resource == "" {
		return &mountError{err: errNoName}
	}
	if err := token.CheckResource(resource); err != nil {
		return err
	}
	if !needed {
		return nil
	}
	err := &token.MissingError{Resource: resource}
	for _, tok := range toks {
		err.Have = append(err.Have, tok.Resource)
	}
	return err
}

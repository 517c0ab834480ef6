package httpguard

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/token"
)

var (
	errNoFunc  = errors.New("httpguard: Middleware.Resources is nil")
	errNoNames = errors.New("httpguard: Middleware.Resources names no resource for an unsafe method")
	errNoName  = errors.New("httpguard: Middleware.Resources names an empty resource")
)

// resources asks which resources r is about. No names for an unsafe method are
// more likely a forgotten case than a request that changes nothing.
func (m *Middleware) resources(r *http.Request, needed bool) ([]string, error) {
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

// want makes a place for each of the resources that the request has a token of,
// in bytewise order, one for a name that is there twice. An unsafe request must
// have a token of each. A name that a token has was checked when the token was
// parsed.
func (v *visit) want(resources []string, needed bool) error {
	v.places = v.onePlace[:0]
	for _, resource := range resources {
		sealed := v.find(resource)
		switch {
		case sealed != nil:
			v.places = append(v.places, place{sealed: sealed, visit: v})
			continue
		case resource == "":
			return &mountError{err: errNoName}
		}
		if err := token.CheckResource(resource); err != nil {
			return err
		}
		if needed {
			return v.missing(resource)
		}
	}
	if len(v.places) > 1 {
		slices.SortFunc(v.places, func(a, b place) int { return strings.Compare(a.sealed.Token.Resource, b.sealed.Token.Resource) })
		v.places = slices.CompactFunc(v.places, func(a, b place) bool { return a.sealed == b.sealed })
	}
	return nil
}

func (v *visit) missing(resource string) error {
	err := &token.MissingError{Resource: resource}
	for _, sealed := range v.sealed {
		err.Have = append(err.Have, sealed.Token.Resource)
	}
	return err
}

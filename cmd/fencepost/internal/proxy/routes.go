package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// routes are the patterns of --resource.
type routes struct{ mux *http.ServeMux }

// route is one pattern of the ServeMux.
type route struct {
	names func(*http.Request) ([]string, error)
	rest  string // the wildcard {rest...}, if there is one
}

// ServeHTTP does nothing: match calls the ServeMux for the path values that it sets.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

func parseRoutes(flags []string) (*routes, error) {
	all := &routes{mux: http.NewServeMux()}
	for _, flag := range flags {
		if err := all.add(flag); err != nil {
			return nil, fmt.Errorf("--resource: %s: %w", flag, err)
		}
	}
	return all, nil
}

func (all *routes) add(flag string) error {
	pattern, list, given := strings.Cut(flag, "=")
	patterns := []string{pattern}
	switch {
	case given && !strings.Contains(pattern, "/"):
		return fmt.Errorf("%q is no route: it needs a path, as in /accounts/{id}=account/{id}", pattern)
	case !given && strings.HasPrefix(flag, "/"):
		return errors.New("which resource? Write ROUTE=RESOURCE, as in /accounts/{id}=account/{id}")
	case !given && strings.ContainsAny(flag, ", "):
		return errors.New("several resources need a route: write ROUTE=RESOURCE,RESOURCE")
	case !given:
		list, patterns = flag, []string{"/" + flag, "/" + flag + "/"}
	}
	names := strings.Split(list, ",")
	if err := checkWildcards(pattern, names); err != nil {
		return err
	}
	return panicToError(func() {
		fill := httpguard.Pattern(names...)
		for _, pattern := range patterns {
			all.mux.Handle(pattern, &route{names: fill, rest: restWildcard(pattern)})
		}
	})
}

// resources fills the wildcards of the names. A trailing slash is not part of a name: some
// servers read both paths as the same file.
func (rt *route) resources(r *http.Request) ([]string, error) {
	if rt.rest != "" {
		r.SetPathValue(rt.rest, strings.TrimSuffix(r.PathValue(rt.rest), "/"))
	}
	return rt.names(r)
}

func restWildcard(pattern string) string {
	for _, w := range wildcard.FindAllStringSubmatch(pattern, -1) {
		if name, multi := strings.CutSuffix(w[1], "..."); multi {
			return name
		}
	}
	return ""
}

var wildcard = regexp.MustCompile(`\{([^{}]*)\}`)

// checkWildcards refuses names with wildcards that the route does not have: they would
// never be filled.
func checkWildcards(pattern string, names []string) error {
	var there []string
	for _, w := range wildcard.FindAllStringSubmatch(pattern, -1) {
		there = append(there, strings.TrimSuffix(w[1], "..."))
	}
	for _, name := range names {
		for _, w := range wildcard.FindAllStringSubmatch(name, -1) {
			if !slices.Contains(there, w[1]) {
				return fmt.Errorf("the route has no wildcard {%s}", w[1])
			}
		}
		if err := token.ValidateResource(wildcard.ReplaceAllString(name, "x")); err != nil {
			return err
		}
	}
	return nil
}

// registeredAt is the part of ServeMux's message that names a line of this program, which
// does not help the user of the flag.
var registeredAt = regexp.MustCompile(` \(registered at [^)]*\)`)

// panicToError returns the first line of fn's panic as an error: it is about a flag, not
// about this program.
func panicToError(fn func()) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			text, _, _ := strings.Cut(fmt.Sprint(panicked), "\n")
			err = errors.New(registeredAt.ReplaceAllString(text, ""))
		}
	}()
	fn()
	return nil
}

// match returns the route of r and sets r's path values, or nil. A request that a ServeMux
// would redirect does not match: it would reach the upstream unchanged.
func (all *routes) match(r *http.Request) *route {
	found, _ := all.mux.Handler(r)
	matched, ok := found.(*route)
	if !ok {
		return nil
	}
	all.mux.ServeHTTP(nil, r)
	return matched
}

package httpguard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fencepost/fencepost/token"
)

// Pattern returns a function for [Middleware.Resources] that fills patterns like
// "account/{id}" from the request's path values, and returns one resource for each
// pattern. It returns an error if a path value is empty. That means that the route has no
// such name, or that the router has not matched the path yet because the middleware is
// mounted around it or by its Use method.
//
// Path values are used verbatim, and each name has its own mark. If a handler accepts
// "42", "042" and "+42" for one row, that row has three marks, and an older token can
// write by another spelling. Such a service needs its own function that normalizes ids.
// So does a service whose ids may be percent-encoded: net/http and gin decode path
// values, chi and echo do not, and there %34%32 is another name than 42.
//
// A handler that forwards the request must build the path from the path values. The next
// service may decode the original path differently, and would take /accounts/42%3Fv for
// another row than the one that was admitted.
//
// In a pattern with several names, a value with a slash is an error (400): "1/2" and "3"
// would give the same resource as "1" and "2/3".
//
// Pattern panics if a pattern is malformed or none is given, as [http.ServeMux.Handle]
// does.
func Pattern(patterns ...string) func(*http.Request) ([]string, error) {
	if len(patterns) == 0 {
		panic("httpguard: no pattern")
	}
	parsed := make([]pattern, len(patterns))
	for i, text := range patterns {
		parsed[i] = parsePattern(text)
	}
	return func(r *http.Request) ([]string, error) {
		resources := make([]string, len(parsed))
		for i, p := range parsed {
			resource, err := p.fill(r)
			if err != nil {
				return nil, err
			}
			resources[i] = resource
		}
		return resources, nil
	}
}

// pattern is literals[0] {names[0]} literals[1] … {names[n-1]} literals[n].
type pattern struct {
	text     string
	literals []string
	names    []string
}

func parsePattern(text string) pattern {
	p := pattern{text: text}
	rest := text
	for {
		literal, after, opened := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			panic(fmt.Sprintf("httpguard: pattern %q: } without {", text))
		}
		p.literals = append(p.literals, literal)
		if !opened {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.ContainsAny(name, "{.") {
			panic(fmt.Sprintf("httpguard: pattern %q: want {name}, a path value's name", text))
		}
		p.names = append(p.names, name)
		rest = after
	}
	if text == "" {
		panic("httpguard: empty pattern")
	}
	return p
}

func (p pattern) fill(r *http.Request) (string, error) {
	resource := p.literals[0]
	for i, name := range p.names {
		value := r.PathValue(name)
		if value == "" {
			return "", fmt.Errorf("httpguard: pattern %q: the path value %s is empty: mount the middleware"+
				" around the handler of a route that has {%s}, not around the router", p.text, name, name)
		}
		if len(p.names) > 1 && strings.Contains(value, "/") {
			return "", &token.InvalidError{Part: "resource", Value: value, Rule: "must not have a slash within a path value"}
		}
		resource += value + p.literals[i+1]
	}
	return resource, nil
}

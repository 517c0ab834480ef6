package httpguard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fencepost/fencepost/token"
)

// Pattern returns a function for [Middleware.Resources] that fills patterns
// like "account/{id}" from the request's path values, one resource for each
// pattern. A path value that is empty is an error: the path has not been
// matched yet (the middleware stands around the router, or was added by a
// router's Use), or the route has no such name.
//
// Path values are taken as they are. The fence is the name: where a handler
// takes "42", "042" and "+42" for one row, that row would have three fences.
// Such a service needs a function of its own, which writes ids in one way. So
// does one whose ids may need escapes: net/http and gin have decoded them, chi
// and echo have not, and %34%32 is another name there than 42.
//
// In a pattern with several names a value with a slash in it is refused, 400:
// "1/2" and "3" would be the same name as "1" and "2/3".
//
// Pattern panics where a pattern cannot be read, and where there is none, as
// [http.ServeMux.Handle] does: both are mistakes in the program's text.
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

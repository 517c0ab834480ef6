package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// checkPath refuses a path that two servers could read in two ways: a request that is
// admitted under one name must not write under another. It checks the path as it will
// be sent to the upstream. It accepts segments whose decoded text has nothing in it
// that some server takes for a boundary or leaves out. RFC 3986 has a path split
// before it is decoded (§2.4) and decoded once; servers that do it in another order, or
// twice, are why each of these is refused, in its decoded form:
//
//	//  .  ..  %2e   merged or resolved by some (RFC 3986 §5.2.4), kept by others
//	%2f  \  %5c      a boundary to servers that decode first, or to Windows
//	%3f  #  %23      the query or the fragment (§3.4, §3.5) to servers that decode first
//	;  %3b           the rest of the segment is a parameter to Tomcat and its like
//	%00 … %1f  %7f   the end, to servers in C
//	%25 and two hex  decoded once more by servers that decode twice
func checkPath(u *url.URL) error {
	path := u.EscapedPath()
	if u.Opaque != "" || !strings.HasPrefix(path, "/") {
		return errors.New("it has no path")
	}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		text, err := url.PathUnescape(segment)
		again, errAgain := url.PathUnescape(text)
		switch {
		case err != nil:
			return err
		case text == "" && i < len(segments)-1:
			return errors.New("its path has an empty segment")
		case text == ".", text == "..":
			return errors.New("its path has a segment of dots only")
		case strings.ContainsAny(text, `/\;?#`):
			return errors.New("its path has a slash, backslash, semicolon, question mark or number sign in a segment")
		case strings.ContainsFunc(text, unicode.IsControl), !utf8.ValidString(text):
			return errors.New("its path has a control character, or text that is not UTF-8")
		case errAgain == nil && again != text, strings.Contains(text, "%u"):
			return errors.New("its path has a percent sign that begins an escape")
		}
	}
	return nil
}

// checkRequest refuses requests that the upstream could read as other requests.
func checkRequest(r *http.Request) error {
	if r.Method == http.MethodConnect {
		return errors.New("CONNECT is for tunnels")
	}
	for name := range r.Header {
		switch cgiName(name) {
		case "x-http-method-override", "x-http-method", "x-method-override":
			// If the field were removed, a DELETE sent as a GET would be answered as a GET.
			return fmt.Errorf("its field %s would change the method: send it with that method", name)
		}
	}
	return nil
}

// stripHeaders removes the fields that would change the path, or that programs behind a
// CGI interface read as the field of tokens itself.
func stripHeaders(header http.Header) {
	for name := range header {
		cgi := cgiName(name)
		if cgi == "x-original-url" || cgi == "x-rewrite-url" || cgi == cgiName(httpguard.Header) && name != httpguard.Header {
			delete(header, name)
		}
	}
}

// cgiName is a field's name as CGI and its successors (WSGI, Rack, PHP) compare it: to
// them - and _ are the same.
func cgiName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// route is one pattern of the ServeMux.
type route struct {
	names func(*http.Request) ([]string, error)
	rest  string // the wildcard {rest...}, if there is one
}

// ServeHTTP does nothing: match calls the ServeMux for the path values that it sets.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

var wildcard = regexp.MustCompile(`\{([^{}]*)\}`)

// addRoute adds the patterns of a --resource. Httpguard and ServeMux panic for a wrong one,
// which is about a flag here, and not about this program.
func addRoute(mux *http.ServeMux, flag string) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			text, _, _ := strings.Cut(fmt.Sprint(panicked), "\n")
			err = errors.New(text)
		}
	}()
	pattern, list, given := strings.Cut(flag, "=")
	patterns := []string{pattern}
	switch {
	case given && !strings.Contains(pattern, "/"):
		return fmt.Errorf("%q has no path: write ROUTE=RESOURCE, as in /accounts/{id}=account/{id}", pattern)
	case !given && (strings.HasPrefix(flag, "/") || strings.ContainsAny(flag, ", ")):
		return errors.New("which resource? Write ROUTE=RESOURCE, as in /accounts/{id}=account/{id}")
	case !given:
		list, patterns = flag, []string{"/" + flag, "/" + flag + "/"}
	}
	rt, probe := &route{names: httpguard.Pattern(strings.Split(list, ",")...)}, new(http.Request)
	for _, w := range wildcard.FindAllStringSubmatch(pattern, -1) {
		name, multi := strings.CutSuffix(w[1], "...")
		if multi {
			rt.rest = name
		}
		probe.SetPathValue(name, "x")
	}
	names, err := rt.names(probe)
	if err != nil {
		return fmt.Errorf("the route does not have the wildcards of %s", list)
	}
	for _, name := range names {
		if err := token.ValidateResource(name); err != nil {
			return err
		}
	}
	for _, pattern := range patterns {
		mux.Handle(pattern, rt)
	}
	return nil
}

// match returns the resources of r, if a route matches. Without names a wildcard is empty. A
// request that a ServeMux would redirect does not match: it would reach the upstream
// unchanged. A trailing slash is not part of a name: some servers read both paths as the same
// file.
func (p *proxy) match(r *http.Request) (resources []string, matched bool) {
	found, _ := p.routes.Handler(r)
	rt, ok := found.(*route)
	if !ok {
		return nil, false
	}
	p.routes.ServeHTTP(nil, r)
	if rt.rest != "" {
		r.SetPathValue(rt.rest, strings.TrimSuffix(r.PathValue(rt.rest), "/"))
	}
	resources, _ = rt.names(r)
	return resources, true
}

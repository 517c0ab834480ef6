package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencepost/fencepost/httpguard"
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
		return errors.New("the request has no path")
	}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		if segment == "" && i < len(segments)-1 {
			return errors.New("the path has an empty segment")
		}
		text, err := url.PathUnescape(segment)
		if err != nil {
			return err
		}
		if err := checkSegment(text); err != nil {
			return fmt.Errorf("the path has %w in a segment", err)
		}
	}
	return nil
}

var (
	errDots     = errors.New("only dots")
	errBoundary = errors.New("a slash, backslash, semicolon, question mark or number sign")
	errControl  = errors.New("a control character")
	errUTF8     = errors.New("text that is not UTF-8")
	errEscaped  = errors.New("a percent sign that begins an escape")
)

// checkSegment checks a segment that has been decoded.
func checkSegment(text string) error {
	switch {
	case text == ".", text == "..":
		return errDots
	case strings.ContainsAny(text, `/\;?#`):
		return errBoundary
	case strings.ContainsFunc(text, unicode.IsControl):
		return errControl
	case !utf8.ValidString(text):
		return errUTF8
	}
	if again, err := url.PathUnescape(text); err == nil && again != text || strings.Contains(text, "%u") {
		return errEscaped
	}
	return nil
}

// checkRequest refuses requests that the upstream could read as other requests.
func (p *proxy) checkRequest(r *http.Request) error {
	if r.Method == http.MethodConnect {
		return errors.New("the method CONNECT is for tunnels")
	}
	for name := range r.Header {
		switch cgiName(name) {
		case "x-http-method-override", "x-http-method", "x-method-override":
			// If the field were removed, a DELETE sent as a GET would be answered as a GET.
			return fmt.Errorf("the field %s would change the method: send the request with that method", name)
		}
	}
	return nil
}

// stripHeaders removes the fields that would change the path, or that programs behind a
// CGI interface read as the field of tokens itself.
func stripHeaders(header http.Header) {
	for name := range header {
		switch cgiName(name) {
		case "x-original-url", "x-rewrite-url":
			delete(header, name)
		case strings.ToLower(httpguard.Header):
			if name != httpguard.Header {
				delete(header, name)
			}
		}
	}
}

// cgiName is a field's name as CGI and its successors (WSGI, Rack, PHP) compare it: to
// them - and _ are the same.
func cgiName(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

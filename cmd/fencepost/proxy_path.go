package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unambiguous refuses a path that two servers could read in two ways: what is
// admitted under one name must not be written under another. It is asked about
// requests that are judged, with the path as it will be sent on. What it lets
// through are segments whose decoded text is what it seems, with nothing in
// them that some server takes for a boundary or leaves out:
//
//	//  .  ..  %2e   merged or resolved by some (RFC 3986 §5.2.4), kept by others
//	%2f  \  %5c      a boundary to those who decode first, or to Windows
//	;  %3b           the rest of the segment is a parameter to Tomcat and its like
//	%00 … %1f  %7f   the end, to those who are written in C
//	%25 and two hex  decoded once more by those who decode twice
func unambiguous(u *url.URL) error {
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
		if err := plain(text); err != nil {
			return fmt.Errorf("the path has %w in a segment", err)
		}
	}
	return nil
}

var (
	errDots     = errors.New("only dots")
	errBoundary = errors.New("a slash, backslash or semicolon")
	errControl  = errors.New("a control character")
	errUTF8     = errors.New("what is no UTF-8")
	errEscaped  = errors.New("a percent sign that begins an escape")
)

// plain looks at a segment that has been decoded.
func plain(text string) error {
	switch {
	case text == ".", text == "..":
		return errDots
	case strings.ContainsAny(text, `/\;`):
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

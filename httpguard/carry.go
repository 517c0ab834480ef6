package httpguard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// prepare returns req itself where there is nothing to change.
func (t Transport) prepare(req *http.Request) (*http.Request, error) {
	set, has := carried(req.Header)
	if !t.named(req.URL.Host) {
		if !has {
			return req, nil
		}
		out := clone(req)
		maps.DeleteFunc(out.Header, func(key string, _ []string) bool { return isField(key) })
		return out, nil
	}
	text, err := t.text(req.Context())
	switch {
	case err != nil:
		return nil, err
	case text == "":
		return req, nil
	case !has:
		out := clone(req)
		out.Header.Set(Header, text)
		return out, nil
	case !same(set, text):
		return nil, fmt.Errorf("%w: %s %s", ErrTwoSources, req.Method, req.URL.Redacted())
	}
	return req, nil
}

// text is the field for the tokens of ctx, each with its seal.
func (t Transport) text(ctx context.Context) (string, error) {
	toks := token.All(ctx)
	sealed := make([]seal.Sealed, len(toks))
	for i, tok := range toks {
		var err error
		if sealed[i], err = t.sealed(ctx, tok); err != nil {
			return "", err
		}
	}
	return FormatSealed(sealed...)
}

func (t Transport) sealed(ctx context.Context, tok token.Token) (seal.Sealed, error) {
	if s, has := seal.FromContext(ctx, tok); has {
		return s, nil
	}
	switch {
	case t.Seals == nil || !token.Leased(ctx, tok):
		return seal.Sealed{Token: tok}, nil
	case t.SealFor < 0:
		return seal.Sealed{}, fmt.Errorf("httpguard: Transport.SealFor is %s", t.SealFor)
	case t.SealFor == 0:
		return t.Seals.Seal(tok, time.Time{})
	}
	return t.Seals.Seal(tok, time.Now().Add(t.SealFor+time.Second-time.Nanosecond))
}

// same reports whether lines say what text says: the same tokens with the same
// seals, in any order and spelling.
func same(lines []string, text string) bool {
	if len(lines) == 1 && lines[0] == text {
		return true
	}
	set, err := ParseSealed(lines)
	if err != nil {
		return false
	}
	ours, err := ParseSealed([]string{text})
	return err == nil && len(set) == len(ours) && !slices.ContainsFunc(set, func(s seal.Sealed) bool { return !slices.Contains(ours, s) })
}

// carried returns what is set under all the keys that are sent as the field.
func carried(header http.Header) (values []string, has bool) {
	for key, set := range header {
		if isField(key) {
			values, has = append(values, set...), true
		}
	}
	return values, has
}

func isField(key string) bool { return strings.EqualFold(key, Header) }

// named asks the URL, not req.Host: that is where the request will go.
func (t Transport) named(host string) bool {
	for _, name := range t.Hosts {
		if strings.EqualFold(name, host) {
			return true
		}
	}
	return false
}

func clone(req *http.Request) *http.Request {
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	return out
}

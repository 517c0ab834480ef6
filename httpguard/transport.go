package httpguard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/token"
)

// ErrTwoSources is returned by [Transport.RoundTrip] if the request already has a field
// Fencing-Token or Idempotency-Key, and its context carries different tokens or another
// key.
var ErrTwoSources = errors.New("httpguard: the request's fields and its context differ")

// Transport is an [http.RoundTripper] that writes the tokens of the request's context
// (see [token.All]) into the field Fencing-Token, and the context's key (see
// [WithIdempotencyKey]) into the field Idempotency-Key. It is safe for concurrent use if
// Base is.
//
// Each redirect is a new request, whose URL is checked against Hosts. Tokens of a
// released lease are not sent. Tokens of all resources are sent, whatever the URL: the
// receiver ignores those that it does not need.
type Transport struct {
	// Base makes the requests; nil means [http.DefaultTransport]. An unsafe request with
	// tokens or a key must be sent at most once, so Transport prevents net/http's
	// Transport from retrying one after a part of it was written. For this, Base gets
	// Idempotency-Key and X-Idempotency-Key in lower case, as keys that [http.Header.Get]
	// does not find, and a GetBody that may fail. Any other Base that retries must report
	// its attempts to an [httptrace.ClientTrace], as net/http's does: a refusal of the
	// second attempt does not show that the first had no effect. If Base uses a proxy
	// over plain HTTP, the proxy can read the tokens.
	Base http.RoundTripper
	// Hosts are the hosts that tokens and keys may be sent to, written as in a URL:
	// "api.example" or "api.example:8443". A host matches if it is equal, ignoring case,
	// with its port as the URL writes it; the scheme is not compared. If Hosts is empty no
	// token is sent, and a guarded service responds 428.
	Hosts []string
	// Keyring signs the tokens of the leases that the context carries. Only issuers of
	// tokens should have its keys: see package signature. Other tokens are sent with the
	// signature that they came with, or without one, because Transport cannot vouch for
	// their numbers. A caller that has checked one (a minted number, for example) adds
	// the signature with [signature.NewContext]. Nil signs nothing.
	Keyring *signature.Keyring
	// SignatureTTL is how long a signature made for a request is valid, rounded up to
	// whole seconds. The receiver must verify it within that time, by its own clock. Zero
	// means forever. If it is negative, RoundTrip returns an error for a token that it
	// would have to sign.
	SignatureTTL time.Duration
}

var _ http.RoundTripper = Transport{}

// RoundTrip implements [http.RoundTripper], with two exceptions. A refusal by one of Hosts
// (status 412 with [ProblemStale]) is returned as an error, a [*guard.StaleError] with
// the token that was refused and no mark. If the response names none of the tokens that
// were sent, the error is [guard.ErrStale] without a StaleError. A remote refusal is thus
// handled like a local one: errors.Is(err, guard.ErrStale) is true, also for the error of
// [http.Client]. A 422 with [ProblemKeyReused] from one of Hosts is returned as
// [guard.ErrKeyReused]. Every other response is returned unchanged, including any other
// 412, a 412 to a HEAD, which has no body, and the responses after which the same request
// may be sent again: 409 with [ProblemInProgress] and 503 with [ProblemUnavailable].
//
// If an unsafe request with tokens or a key gets no response, the error is
// [guard.ErrUnknown] joined with Base's error: the receiver may have applied the request.
// If Base had sent the request before, a refusal is [guard.ErrUnknown] too, and not
// guard.ErrStale. If no connection could be made, or the context had ended before, nothing
// was sent, and the error is not ErrUnknown. RoundTrip never repeats such a request. If it
// has a key, the caller may repeat it after any error and any response: the service
// applies it once.
//
// If the lease was lost before, the request is not sent. The other guards send the write
// then, since they admit and write in one step; but a receiver of requests may not compare
// tokens, for example in report-only mode. If the lease is lost or released later, an
// unsafe request with tokens is not cut off, because its outcome would become unknown: it
// may take 30 s more.
//
// If the caller has set the field itself, it is sent unchanged, provided that the context
// carries no tokens or the same ones; otherwise RoundTrip returns [ErrTwoSources]. It is
// removed from requests to hosts that are not in Hosts, because http.Client copies fields
// to the target of a redirect. The field's name is matched in any case. RoundTrip returns
// a [*HeaderError], and sends nothing, if a token in the context is incomplete.
//
// An Idempotency-Key that the caller has set itself is sent unchanged to every host. If
// the context carries another key, and the host is one of Hosts, RoundTrip returns
// ErrTwoSources.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := t.prepare(req)
	if err == nil {
		err = context.Cause(req.Context()) // nothing was sent
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // required of a RoundTripper, also on errors
		}
		return nil, err
	}
	lines, guarded := carried(out.Header)
	keyed := t.named(out.URL.Host) && keyLines(out.Header) != nil
	writes := (guarded || keyed) && !httpwrite.IsSafe(out.Method)
	resp, attempts, err := t.send(req, out, writes)
	if err != nil {
		if writes {
			err = guard.WithCause(req.Context(), uncertain(out, err, attempts))
		}
		return nil, err
	}
	if err := t.refusal(out, resp, lines); err != nil {
		if attempts > 1 { // the outcome of the first attempt is not known
			err = fmt.Errorf("httpguard: %s: %w: an attempt had no response, and the next one's was %q", out.URL.Host, guard.ErrUnknown, err.Error())
		}
		return nil, err
	}
	return resp, nil
}

// send sends out with Base; out is req or its copy. It counts the attempts if writes.
func (t Transport) send(req, out *http.Request, writes bool) (resp *http.Response, attempts int, err error) {
	out, ended := requestSteps(req, out)
	defer ended()
	if !writes {
		resp, err = t.base().RoundTrip(out)
		return resp, 0, err
	}
	if err := dropRequest(req); err != nil {
		return nil, 1, err
	}
	resp, attempts, err = httpwrite.SendOnce(t.base(), out)
	if err != nil {
		return nil, attempts, err
	}
	if err := dropResponse(req, resp); err != nil {
		return nil, attempts, err
	}
	return resp, attempts, nil
}

// CloseIdleConnections calls Base's method of the same name, if Base has one.
func (t Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// prepare returns the request to send: req itself if there is nothing to change.
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
	if err == nil && !httpwrite.IsSafe(req.Method) {
		stepTokensUsed(req.Context())
	}
	switch {
	case err != nil:
		return nil, err
	case text == "":
		return withKey(req)
	case !has:
		out := clone(req)
		out.Header.Set(Header, text)
		return withKey(out)
	case !same(set, text):
		return nil, fmt.Errorf("%w: %s of %s %s", ErrTwoSources, Header, req.Method, req.URL.Redacted())
	}
	return withKey(req)
}

// text returns the field's value for the tokens of ctx, each with its signature.
func (t Transport) text(ctx context.Context) (string, error) {
	toks := token.All(ctx)
	signed := make([]signature.Signed, len(toks))
	for i, tok := range toks {
		var err error
		if signed[i], err = t.signed(ctx, tok); err != nil {
			return "", err
		}
	}
	return FormatSigned(signed...)
}

func (t Transport) signed(ctx context.Context, tok token.Token) (signature.Signed, error) {
	if s, has := signature.FromContext(ctx, tok); has {
		return s, nil
	}
	switch {
	case t.Keyring == nil || !tokenctx.Leased(ctx, tok.Resource, tok):
		return signature.Signed{Token: tok}, nil
	case t.SignatureTTL < 0:
		return signature.Signed{}, fmt.Errorf("httpguard: Transport.SignatureTTL is %s", t.SignatureTTL)
	case t.SignatureTTL == 0:
		return t.Keyring.Sign(tok, time.Time{})
	}
	return t.Keyring.Sign(tok, time.Now().Add(t.SignatureTTL+time.Second-time.Nanosecond))
}

// same reports whether lines and text have the same tokens with the same signatures, in
// any order and spelling.
func same(lines []string, text string) bool {
	if len(lines) == 1 && lines[0] == text {
		return true
	}
	set, err := ParseSigned(lines)
	if err != nil {
		return false
	}
	ours, err := ParseSigned([]string{text})
	return err == nil && len(set) == len(ours) && !slices.ContainsFunc(set, func(s signature.Signed) bool { return !slices.Contains(ours, s) })
}

// carried returns the values of all keys that are sent as the field.
func carried(header http.Header) (values []string, has bool) {
	for key, set := range header {
		if isField(key) {
			values, has = append(values, set...), true
		}
	}
	return values, has
}

func isField(key string) bool { return strings.EqualFold(key, Header) }

// named reports whether host is in Hosts. Its argument is the URL's host, where the
// request is sent, and not req.Host.
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

// maxProblem is how many bytes of a response are read to parse the problem in it.
// Responses of this package need less than a tenth of that.
const maxProblem = 8 << 10

// refusal returns an error if resp refuses a token of lines, the field that req carries,
// or a key. Otherwise it returns nil, and resp's body is unchanged. A host that is not in
// Hosts was sent no token and no key, so its response is never a refusal.
func (t Transport) refusal(req *http.Request, resp *http.Response, lines []string) error {
	switch {
	case !t.named(req.URL.Host):
		return nil
	case resp.StatusCode == http.StatusPreconditionFailed:
		return staleness(req, resp, lines)
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return keyReuse(req, resp)
	}
	return nil
}

func keyReuse(req *http.Request, resp *http.Response) error {
	p, is := readProblem(resp)
	if !is || p.Type != ProblemKeyReused {
		return nil
	}
	_ = resp.Body.Close()
	return fmt.Errorf("httpguard: %s: %w", req.URL.Host, guard.ErrKeyReused)
}

func staleness(req *http.Request, resp *http.Response, lines []string) error {
	toks, err := Parse(lines)
	if err != nil || len(toks) == 0 {
		return nil
	}
	p, is := readProblem(resp)
	if !is || p.Type != ProblemStale {
		return nil
	}
	_ = resp.Body.Close()
	refused := &guard.StaleError{}
	if tok, sent := find(toks, p.Resource); sent {
		refused.Token = tok
	} else if len(toks) == 1 && p.Resource == "" {
		refused.Token = toks[0]
	} else {
		return fmt.Errorf("httpguard: %s refused a token without naming its resource: %w", req.URL.Host, guard.ErrStale)
	}
	return fmt.Errorf("httpguard: %s: %w", req.URL.Host, refused)
}

// uncertain adds guard.ErrUnknown to the error of a guarded or keyed write. It returns err itself
// if the first attempt could not connect: then nothing was sent.
func uncertain(req *http.Request, err error, attempts int) error {
	var op *net.OpError
	if attempts == 0 && errors.As(err, &op) && op.Op == "dial" {
		return err
	}
	return errors.Join(fmt.Errorf("httpguard: %s: %w", req.URL.Host, guard.ErrUnknown), err)
}

// readProblem parses resp's body, and restores it for the caller.
func readProblem(resp *http.Response) (p problem, is bool) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != problemType {
		return problem{}, false
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	return p, err == nil
}

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
// Fencing-Token or Idempotency-Key, and its context needs other tokens or has another key.
var ErrTwoSources = errors.New("httpguard: the request's fields and its context differ")

var errNoHosts = errors.New("httpguard: Transport.Hosts is empty: name the host to send tokens and keys to, or call WithResources(ctx) to send no token")

type resourcesKey struct{}

// WithResources returns a context whose requests [Transport] sends with the tokens of
// these resources only. Name those that the service checks: see [Middleware]. If there are
// none, no token is sent. An earlier call for ctx has no effect any more.
func WithResources(ctx context.Context, resources ...string) context.Context {
	return context.WithValue(ctx, resourcesKey{}, slices.Compact(slices.Sorted(slices.Values(resources))))
}

// Transport is an [http.RoundTripper] that writes the tokens that a request needs into
// the field Fencing-Token, and the key of the request's context (see
// [WithIdempotencyKey]) into the field Idempotency-Key. It is safe for concurrent use if
// Base is.
//
// A request needs the tokens of the resources that [WithResources] has named. Without
// WithResources it needs the only token of its context, and one with several tokens is an
// error. Tokens of a released lease do not count. A handler's context has all tokens of
// the request that it handles, so a handler that calls another service names those to pass
// on.
//
// Each redirect is a new request in the same context, whose URL is checked against Hosts.
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
	// with its port as the URL writes it; the scheme is not compared. A request to another
	// host is sent without a token. If Hosts has no name, RoundTrip returns an error for a
	// request that has or needs a token, or has a key in its context.
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
// RoundTrip returns these errors for a request to one of Hosts, and sends nothing: a
// [*token.MissingError] if the context has no token of a resource of [WithResources];
// [token.ErrReleased] if the token's lease was released; an error that is
// [token.ErrInvalid] if a token is incomplete, or if there are more than MaxMembers; and
// an error that names WithResources if the context has several tokens without it.
//
// If the caller has set the field itself, it is sent unchanged. It must have the tokens
// that WithResources has named. Without WithResources the context must have each of its
// tokens, or no token. Otherwise RoundTrip returns [ErrTwoSources]. The field is removed
// from requests to hosts that are not in Hosts, because http.Client copies fields to the
// target of a redirect. The field's name is matched in any case.
//
// An Idempotency-Key that the caller has set itself is sent unchanged to every host. If
// the context carries another key, and the host is one of Hosts, RoundTrip returns
// ErrTwoSources.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := t.outgoing(req)
	if err == nil {
		err = context.Cause(req.Context()) // nothing was sent
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // required of a RoundTripper, also on errors
		}
		return nil, err
	}
	var resp *http.Response
	attempts := 0
	if base := simulated(t.base(), req, out.writes); out.writes {
		resp, attempts, err = httpwrite.SendOnce(base, out.Request)
	} else {
		resp, err = base.RoundTrip(out.Request)
	}
	switch {
	case err != nil && out.writes:
		return nil, guard.WithCause(req.Context(), uncertain(out.Request, err, attempts))
	case err != nil:
		return nil, err
	}
	if err = out.refusal(resp); err == nil {
		return resp, nil
	}
	if attempts > 1 { // the outcome of the first attempt is not known
		err = fmt.Errorf("httpguard: %s: %w: an attempt had no response, and the next one's was %q", out.URL.Host, guard.ErrUnknown, err.Error())
	}
	return nil, err
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

// outgoing is a request as it is sent.
type outgoing struct {
	*http.Request                    // the caller's, or a copy with other fields
	tokens        []signature.Signed // those of its field; none if the field is malformed
	named         bool               // its host is one of Hosts
	writes        bool               // its method is unsafe, and it has tokens or a key for a host in Hosts
}

// outgoing returns the request to send for req, or the error for which nothing is sent.
func (t Transport) outgoing(req *http.Request) (out outgoing, err error) {
	out.Request = req
	hosts := false
	for _, host := range t.Hosts { // the URL's host is where the request is sent, and not req.Host
		out.named = out.named || strings.EqualFold(host, req.URL.Host)
		hosts = hosts || host != "" // the Split of an unset variable has one empty name
	}
	lines := fieldLines(req.Header, Header)
	if hosts && !out.named {
		if lines != nil {
			out.Request = clone(req)
			maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return strings.EqualFold(name, Header) })
		}
		return out, nil
	}
	var text string
	if out.tokens, text, err = t.tokens(req, lines); err != nil {
		return out, err
	}
	key, err := keyToAdd(req)
	if err != nil {
		return out, err
	}
	if !hosts {
		if lines != nil || text != "" || key != "" {
			err = errNoHosts
		}
		return out, err
	}
	if text != "" || key != "" {
		out.Request = clone(req)
	}
	if text != "" {
		out.Header.Set(Header, text)
	}
	if key != "" {
		out.Header.Set(keyHeader, key)
	}
	if !httpwrite.IsSafe(req.Method) {
		out.writes = lines != nil || text != "" || fieldLines(out.Header, keyHeader) != nil
		stepTokensUsed(req.Context(), out.tokens)
	}
	return out, nil
}

// tokens returns the tokens to send with req: those of lines, the field that its caller
// has set, or those of its context, with the text of the field for them.
func (t Transport) tokens(req *http.Request, lines []string) (sent []signature.Signed, text string, err error) {
	ctx := req.Context()
	resources, named := ctx.Value(resourcesKey{}).([]string)
	var toks []token.Token
	if !named {
		toks = token.All(ctx)
	}
	for _, resource := range resources {
		tok, err := token.FromContext(ctx, resource)
		if err != nil {
			return nil, "", err
		}
		toks = append(toks, tok)
	}
	if lines == nil && !named && len(toks) > 1 {
		return nil, "", fmt.Errorf("httpguard: the context has %d tokens: name the resources that the request needs with WithResources", len(toks))
	}
	ours := make([]signature.Signed, len(toks))
	for i, tok := range toks {
		if ours[i], err = t.signed(ctx, tok); err != nil {
			return nil, "", err
		}
	}
	if lines == nil {
		text, err = FormatSigned(ours...)
		return ours, text, err
	}
	sent, err = ParseSigned(lines)
	if !named && len(ours) == 0 {
		return sent, "", nil
	}
	if err != nil || len(sent) == 0 || named && len(sent) != len(ours) ||
		slices.ContainsFunc(sent, func(s signature.Signed) bool { return !slices.Contains(ours, s) }) {
		return nil, "", fmt.Errorf("%w: %s of %s %s", ErrTwoSources, Header, req.Method, req.URL.Redacted())
	}
	return sent, "", nil
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

// fieldLines returns the lines of the field, whose name may have any case.
func fieldLines(header http.Header, field string) (lines []string) {
	for name, set := range header {
		if strings.EqualFold(name, field) {
			lines = append(lines, set...)
		}
	}
	return lines
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

// refusal returns an error if resp refuses a token that o carries, or a key. Otherwise it
// returns nil, and resp's body is unchanged. A host that is not in Hosts was sent no token
// and no key, so its response is never a refusal.
func (o outgoing) refusal(resp *http.Response) error {
	var typ string
	switch {
	case !o.named:
		return nil
	case resp.StatusCode == http.StatusPreconditionFailed && len(o.tokens) > 0:
		typ = ProblemStale
	case resp.StatusCode == http.StatusUnprocessableEntity:
		typ = ProblemKeyReused
	default:
		return nil
	}
	p, is := readProblem(resp)
	if !is || p.Type != typ {
		return nil
	}
	_ = resp.Body.Close()
	if typ == ProblemKeyReused {
		return fmt.Errorf("httpguard: %s: %w", o.URL.Host, guard.ErrKeyReused)
	}
	for _, s := range o.tokens {
		if s.Token.Resource == p.Resource || p.Resource == "" && len(o.tokens) == 1 {
			return fmt.Errorf("httpguard: %s: %w", o.URL.Host, &guard.StaleError{Token: s.Token})
		}
	}
	return fmt.Errorf("httpguard: %s refused a token without naming its resource: %w", o.URL.Host, guard.ErrStale)
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
	if err != nil || kind != httpwrite.ProblemType {
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

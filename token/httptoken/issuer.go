package httptoken

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/internal/register/httpjson"
	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] that asks a service. It must not be copied. It is safe for
// concurrent use.
type Issuer struct {
	// URL is that of the service, or of the balancer before its replicas, as in
	// "https://locks.example.com". It has no path. It is required.
	URL string
	// Bearer is sent to authenticate. Empty means that no credential is sent.
	Bearer string
	// Client sends the requests; redirects are not followed. Each waiter takes a
	// connection, unless the service speaks HTTP/2. Nil means [http.DefaultClient], which
	// keeps two connections for the calls that do not wait.
	Client *http.Client
	// Operator makes Inspect and Locks return the ids of holders, which Break takes. False
	// means that they return the labels, as an issuer's clients have them.
	Operator bool

	once   sync.Once
	secret string
}

var (
	_ token.QueueIssuer = (*Issuer)(nil)
	_ token.Inspector   = (*Issuer)(nil)
)

// timeout is how long the service has to reply, besides the wait.
const timeout = 10 * time.Second

// Acquire implements [token.Issuer]. The ttl is rounded down to whole milliseconds. holder
// has at most [MaxLabelBytes].
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return i.acquire(ctx, resource, holder, ttl, 0)
}

func (i *Issuer) acquire(ctx context.Context, resource, holder string, ttl, wait time.Duration) (grant token.Grant, err error) {
	if grant.Token, err = token.New(resource, 1, holder); err != nil {
		return grant, err
	}
	grant.Token.Number, grant.Until, err = i.lease(ctx, http.MethodPut, "", grant.Token, ttl, wait)
	var held *token.HeldError
	if errors.As(err, &held) {
		held.Resource = resource
	}
	return grant, err
}

// lease sends a request for a lease.
func (i *Issuer) lease(ctx context.Context, method, action string, tok token.Token, ttl, wait time.Duration) (number int64, until time.Time, err error) {
	body := i.proof(tok)
	body["ttl_ms"] = ttl.Milliseconds()
	if wait > 0 {
		body["wait_ms"] = wait.Milliseconds()
	}
	sent := time.Now()
	var reply lease
	err = i.call(ctx, wait, method, path(tok.Resource)+action, body, &reply)
	if err == nil && (reply.ExpiresIn < 1 || method == http.MethodPut && reply.Number < 1) {
		err = fmt.Errorf("httptoken: a reply of %s has no lease", i.URL)
	}
	return reply.Number, sent.Add(ms(reply.ExpiresIn)), err
}

// proof returns the fields that identify an acquisition. No other process can find out the
// request. Two calls for one holder have the same one.
func (i *Issuer) proof(tok token.Token) map[string]any {
	i.once.Do(func() { i.secret = rand.Text() })
	sum := sha256.Sum256([]byte(i.secret + "\n" + tok.Resource + "\n" + tok.Holder))
	return map[string]any{"holder": tok.Holder, "request": fmt.Sprintf("%x", sum[:16])}
}

// Wait implements [token.QueueIssuer]. It sends one request after another, each of which
// waits in the issuer's queue for up to [MaxWait]. The next one joins at the end.
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if cause := context.Cause(ctx); cause != nil {
		return token.Grant{}, cause // without a release: the holder may have had the lock before
	}
	grant, err := i.Acquire(ctx, resource, holder, ttl) // the reply names the holder
	var held *token.HeldError
	for ctx.Err() == nil && (errors.As(err, &held) || held != nil && errors.Is(err, token.ErrLost)) {
		wait := MaxWait
		if deadline, ok := ctx.Deadline(); ok {
			wait = max(min(wait, time.Until(deadline)), time.Millisecond)
		}
		grant, err = i.acquire(ctx, resource, holder, ttl, wait)
		if err == nil && time.Until(grant.Until) < ttl/2 {
			// The lease began when the wait ended, which is not known here. That of a renewal
			// counts from its sending.
			grant.Until, err = i.Renew(ctx, grant.Token, ttl)
		}
	}
	if err == nil {
		return grant, nil
	}
	if !errors.Is(err, token.ErrInvalid) {
		answers := i.leave(ctx, grant.Token)
		if cause := context.Cause(ctx); cause != nil && held != nil && answers {
			err = fmt.Errorf("httptoken: wait for %s: %w (%w)", resource, cause, held)
		}
	}
	return token.Grant{}, err
}

// leave ends the wait of a holder, and reports whether the service answers. The replica that
// has served the wait replies to a Release when the holder has left. Another one replies that
// the lock is lost. The first replica has then seen the disconnect, or is about to, and may
// have granted the lock before.
func (i *Issuer) leave(ctx context.Context, tok token.Token) (answers bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	err := i.Release(ctx, tok)
	if errors.Is(err, token.ErrLost) {
		time.Sleep(50 * time.Millisecond)
		err = i.Release(ctx, tok)
	}
	return err == nil || errors.Is(err, token.ErrLost)
}

// Renew implements [token.Issuer].
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	_, until, err := i.lease(ctx, http.MethodPost, "/renew", tok, ttl, 0)
	return until, err
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	return i.call(ctx, 0, http.MethodDelete, path(tok.Resource), i.proof(tok), nil)
}

// Inspect implements [token.Inspector].
func (i *Issuer) Inspect(ctx context.Context, resource string) (token.State, error) {
	var reply state
	err := i.call(ctx, 0, http.MethodGet, path(resource), nil, &reply)
	reply.Name = resource
	return i.state(reply), err
}

// Locks implements [token.Inspector].
func (i *Issuer) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		query := url.Values{"prefix": {prefix}}
		for more := true; more; more = query.Get("after") != "" {
			var reply page
			if err := i.call(ctx, 0, http.MethodGet, "/v1/locks?"+query.Encode(), nil, &reply); err != nil {
				yield(token.State{}, err)
				return
			}
			for _, s := range reply.Locks {
				if !yield(i.state(s), nil) {
					return
				}
			}
			query.Set("after", reply.Next)
		}
	}
}

func (i *Issuer) state(s state) token.State {
	t := token.State{Resource: s.Name, Number: s.Number, Holder: s.Holder, Remaining: ms(s.Remaining), Waiters: s.Queue}
	if !i.Operator {
		t.Holder = depose.Label(s.Holder)
		for n, waiter := range s.Queue {
			t.Waiters[n] = depose.Label(waiter)
		}
	}
	return t
}

// Break deposes the holder with this id, as an Operator's Inspect returns it, and returns the
// new number and what was done. above is a number of the holder's token that the issuer behind
// the service may have forgotten, or 0. If unfenced, no guard is raised. If another holder has
// the lock, nothing is changed, and the error is a [*token.HeldError].
func (i *Issuer) Break(ctx context.Context, resource, holder, reason string, above int64, unfenced bool) (number int64, report []string, err error) {
	var reply struct {
		Number int64
		Report []string
	}
	err = i.call(ctx, breakTimeout, http.MethodPost, path(resource)+"/break", map[string]any{
		"holder": holder, "reason": reason, "number": above, "unfenced": unfenced,
	}, &reply)
	return reply.Number, reply.Report, err
}

// breakTimeout is how long the guards may take, besides the timeout of a request.
const breakTimeout = time.Minute

func path(resource string) string {
	return "/v1/locks/" + strings.ReplaceAll(url.PathEscape(resource), ".", "%2E")
}

// call sends a request, and decodes the reply to it. A nil reply is 204.
func (i *Issuer) call(ctx context.Context, wait time.Duration, method, path string, body, reply any) error {
	within, cancel := context.WithTimeout(ctx, wait+timeout)
	defer cancel()
	req, err := httpjson.NewRequest(within, method, i.URL+path, body)
	if err != nil {
		return fmt.Errorf("httptoken: %w", err)
	}
	if wait > 0 {
		req.GetBody = nil // otherwise net/http sends it again, if the stream of HTTP/2 is reset
	}
	if i.Bearer != "" {
		req.Header.Set("Authorization", "Bearer "+i.Bearer)
	}
	client := *cmp.Or(i.Client, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, err = httpjson.Do(&client, req, reply)
	var refused *httpjson.Refusal
	switch {
	case errors.As(err, &refused):
		err = refusal(refused, err)
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("httptoken: %w", err)
	}
	return err
}

// RefusalError is a refusal for which package token has no error of its own, such as a missing
// right.
type RefusalError struct {
	Status        int
	Title, Detail string
	err           error
}

func (e *RefusalError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Title, e.Detail) }

// Unwrap returns [token.ErrUnreachable], if a retry can cure the refusal.
func (e *RefusalError) Unwrap() error { return e.err }

// refusal returns the error of a reply. One without a problem of the service is that of a proxy.
func refusal(r *httpjson.Refusal, err error) error {
	var p problem
	_ = json.Unmarshal([]byte(r.Body), &p)
	switch {
	case p.Type == ProblemHeld && p.Remaining != nil:
		return &token.HeldError{Holder: p.Holder, Remaining: ms(*p.Remaining)}
	case p.Type == ProblemLost:
		return token.ErrLost
	case p.Type == ProblemNeverHeld:
		return nil
	case p.Type == ProblemFailed:
		err = r // no outage
	}
	return &RefusalError{r.Status, cmp.Or(p.Title, http.StatusText(r.Status)), p.Detail, err}
}

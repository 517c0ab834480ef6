package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/internal/pgadmit"
)

// keyField turns a request into a unit, if --idempotency-caller is given.
const keyField = "Idempotency-Key"

var fieldName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// checkKeyed returns an error if --idempotency-caller cannot work with the other flags.
func (c *Cmd) checkKeyed() error {
	switch {
	case c.IdempotencyCaller == "":
		return nil
	case !fieldName.MatchString(c.IdempotencyCaller):
		return errors.New("--idempotency-caller: not the name of a field")
	case c.DangerouslyMemory || isRedis(c.Store):
		return errors.New("--idempotency-caller needs --store=postgres://…: only PostgreSQL keeps the answers")
	case c.DangerouslyReportOnly:
		return errors.New("--idempotency-caller and --dangerously-report-only exclude each other")
	}
	return nil
}

// newKeyed returns a handler that makes a unit of each unsafe request with a key, and
// calls next. The body is read before the request takes a slot and its resources.
func (p *proxy) newKeyed(next http.Handler) http.Handler {
	if p.IdempotencyCaller == "" {
		return next
	}
	units := httpguard.Idempotency{Caller: p.callerOf, MaxBody: int64(p.MaxBody)}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stateOf(r.Context()).keyRefused = false
		next.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st := stateOf(r.Context())
		if !st.unsafe || st.upgrade || len(r.Header[keyField]) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		r, err := p.readWhole(w, r, st)
		if err != nil {
			st.incomplete(w, err)
			return
		}
		st.keyRefused = true
		units.ServeHTTP(w, r)
		if st.keyRefused && st.err == nil {
			st.err = errKeyRefused
		}
	})
}

var (
	errKeyRefused = errors.New("the key is missing or malformed, or its first request is still running")
	errUnanswered = errors.New("the key was used, and no answer to its request is stored")
)

func (p *proxy) callerOf(r *http.Request) (string, error) {
	if lines := r.Header.Values(p.IdempotencyCaller); len(lines) == 1 && lines[0] != "" {
		return lines[0], nil
	}
	return "", fmt.Errorf("a request with a key has not one field %s, of --idempotency-caller", p.IdempotencyCaller)
}

// readWhole returns r with its body in memory. --timeout bounds the reading.
func (p *proxy) readWhole(w http.ResponseWriter, r *http.Request, st *requestState) (*http.Request, error) {
	if st.body == nil {
		return r, nil
	}
	r = r.WithContext(r.Context())
	st.request = r
	st.body = &body{ReadCloser: r.Body, left: -1} // around the Middleware's, as in admitted
	limit := newTimeLimit(p.Timeout, w, st.body, func(error) {})
	text, err := io.ReadAll(st.body)
	if !limit.end() && err == nil {
		err = errTimeout
		_ = st.body.stop(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return r, err
}

// sendKeyed sends a request that is applied once:
//
//  1. a request whose key is recorded gets the stored answer, or is refused;
//  2. the key is recorded, and committed;
//  3. the request is sent, and the answer is stored.
//
// After a crash between 2 and the end of 3 no answer is stored, and the service may have
// applied the request. It is never sent again. An upstream that does not accept a
// connection is found before 2, so that an outage does not use up the keys.
func (p *proxy) sendKeyed(held context.Context, w http.ResponseWriter, r *http.Request, st *requestState, unit guard.Unit) {
	resource := st.resources[0]
	found, err := p.store.units.find(r.Context(), resource, unit)
	if err == nil && found == nil {
		if err := p.dial(r.Context()); err != nil {
			p.log.metrics.upstreamFailed(problemUnreachable)
			problemUnreachable.write(w, st, err)
			return
		}
		found, err = p.store.units.reserve(r.Context(), resource, unit)
	}
	switch {
	case err != nil:
		p.log.metrics.storeFailed(st)
		problemStore.write(w, st, err)
	case found != nil:
		p.boundWriting(w)
		answerAgain(w, r, st, found)
	default:
		answer := &heldAnswer{ResponseWriter: w}
		p.send(held, answer, r, st)
		p.storeAnswer(r, st, unit, answer)
		p.boundWriting(w)
		answer.finish()
	}
}

// boundWriting bounds the writing of an answer by --timeout: the request still holds its
// resources, and a client may not read. ServeHTTP lifts the bound at the next request of
// the connection. A flush would be another end of it, but then the client could send its
// next request while this one still counts as running.
func (p *proxy) boundWriting(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.Timeout))
}

// answerAgain answers a request whose key is recorded. found is the reply of find_unit.
func answerAgain(w http.ResponseWriter, r *http.Request, st *requestState, found []byte) {
	result, same := pgadmit.FirstResult(found)
	switch {
	case !same:
		st.keyRefused, st.err = true, guard.ErrKeyReused
		httpguard.Error(w, r, guard.ErrKeyReused)
	case result == nil:
		st.keyRefused = true
		problemUnanswered.write(w, st, errUnanswered)
	default:
		st.replayed = true
		httpguard.WriteAnswer(w, r, result)
	}
}

// storeAnswer stores what the upstream has answered. If it cannot be stored, the client
// gets the answer, and a repeat gets problemUnanswered.
func (p *proxy) storeAnswer(r *http.Request, st *requestState, unit guard.Unit, answer *heldAnswer) {
	if !st.answered || answer.passing {
		return
	}
	stored, err := answer.encode()
	if err == nil {
		err = guard.CheckResult(stored)
	}
	if err == nil {
		err = p.store.units.setResult(r.Context(), st.resources[0], unit, stored)
	}
	if err != nil {
		p.log.Error("the answer was not stored: a repeat of its request will be refused", "resource", st.resources[0], "error", err)
	}
}

// dial returns an error if the upstream accepts no connection.
func (p *proxy) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.upstreamAddress)
	if err != nil {
		return err
	}
	return conn.Close()
}

// heldAnswer keeps an answer back until finish is called, or until it is too long to be
// stored: then it is passed on as it comes.
type heldAnswer struct {
	http.ResponseWriter
	status  int
	body    bytes.Buffer
	passing bool
}

// Unwrap is for http.ResponseController, which sets deadlines.
func (a *heldAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader drops the informational statuses.
func (a *heldAnswer) WriteHeader(status int) {
	if status >= 200 && a.status == 0 {
		a.status = status
	}
}

func (a *heldAnswer) Write(text []byte) (int, error) {
	if !a.passing && a.body.Len()+len(text) > guard.MaxResult {
		a.finish()
		a.passing = true
	}
	if a.passing {
		return a.ResponseWriter.Write(text)
	}
	return a.body.Write(text)
}

// FlushError is for http.ResponseController. It flushes only what has been passed on.
func (a *heldAnswer) FlushError() error {
	if !a.passing {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// finish sends what was kept back.
func (a *heldAnswer) finish() {
	if a.passing {
		return
	}
	if a.status != 0 {
		a.ResponseWriter.WriteHeader(a.status)
	}
	_, _ = a.ResponseWriter.Write(a.body.Bytes())
}

// encode returns the answer in the form that is stored, with those of its fields that an
// Answer may have.
func (a *heldAnswer) encode() ([]byte, error) {
	stored := httpguard.Answer{Status: a.status, Header: http.Header{}, Body: a.body.Bytes()}
	for name, values := range a.Header() {
		if slices.Contains(httpwrite.StoredFields, name) {
			stored.Header[name] = values
		}
	}
	return stored.Encode()
}

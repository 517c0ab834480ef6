package proxy

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

var errEvicted = errors.New("evicted")

// evicted is a body whose reads fail after its last byte, as they do when a newer token waits.
type evicted struct{ *strings.Reader }

func (b evicted) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errEvicted
	}
	return n, err
}

func (evicted) Close() error { return nil }

func TestACompleteBodyStaysCompleteAfterALaterError(t *testing.T) {
	t.Parallel()
	whole := &body{ReadCloser: evicted{strings.NewReader("older")}, left: 5}
	read, err := io.ReadAll(whole)
	require.NoError(t, err)
	require.Equal(t, "older", string(read))
	require.NoError(t, whole.readError())

	cut := &body{ReadCloser: evicted{strings.NewReader("old")}, left: 5}
	_, err = io.ReadAll(cut)
	require.ErrorIs(t, err, errEvicted)
	require.ErrorIs(t, cut.readError(), errEvicted)

	// A body of unknown length ends with its reader's EOF, which the upstream gets too.
	chunked := &body{ReadCloser: evicted{strings.NewReader("older")}, left: -1}
	_, err = io.ReadAll(chunked)
	require.ErrorIs(t, err, errEvicted)
}

// inFront returns a proxy in front of a function. Proxies with the same marks share a table
// of requests in flight.
func inFront(t *testing.T, marks *guard.Memory, wait time.Duration, upstream func(r *http.Request)) *proxy {
	t.Helper()
	accounts, err := parseRoutes([]string{"account/{id}"})
	require.NoError(t, err)
	p := &proxy{
		Cmd:      &Cmd{limits: limits{MaxBody: 1 << 10, Wait: wait, Timeout: time.Minute}},
		log:      &logger{Logger: slog.New(slog.DiscardHandler), metrics: newMetrics()},
		routes:   accounts,
		files:    &reloadedFiles{},
		store:    markStore{marks: marks},
		slots:    make(chan struct{}, 2),
		upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { upstream(r) }),
	}
	p.guarded = p.newGuarded()
	return p
}

func (p *proxy) put(t *testing.T, body io.Reader, length, number int64) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/account/42", body)
	r.ContentLength = length
	r.Header.Set(httpguard.Header, fmt.Sprintf(`%d;r="account/42";h="h"`, number))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code
}

func TestARequestThatIsDismissedAfterItsLastByteIsComplete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length, read int64
		then         error
	}{
		"all was read":          {5, 5, io.EOF},
		"some of it":            {5, 4, guard.ErrStale},
		"the length is unknown": {-1, 5, guard.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called, marks := false, new(guard.Memory)
			newer := inFront(t, marks, time.Millisecond, func(*http.Request) {})
			older := inFront(t, marks, time.Minute, func(r *http.Request) {
				called = true
				_, err := io.CopyN(io.Discard, r.Body, c.read)
				require.NoError(t, err)
				require.Equal(t, http.StatusServiceUnavailable, newer.put(t, nil, 0, 34))
				_, err = r.Body.Read(make([]byte, 10))
				require.ErrorIs(t, err, c.then)
				require.Equal(t, errors.Is(err, io.EOF), stateOf(r.Context()).body.readError() == nil)
			})
			older.put(t, strings.NewReader("older"), c.length, 33)
			require.True(t, called)
		})
	}
}

func TestAClientThatBreaksOffBehindItsLastByteHasSentEverything(t *testing.T) {
	t.Parallel()
	for length, broken := range map[int64]error{5: nil, 6: errEvicted, -1: errEvicted} {
		called := false
		p := inFront(t, new(guard.Memory), time.Minute, func(r *http.Request) {
			called = true
			_, err := io.ReadAll(r.Body)
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, stateOf(r.Context()).body.readError(), broken)
		})
		p.put(t, evicted{strings.NewReader("older")}, length, 33)
		require.True(t, called)
	}
}

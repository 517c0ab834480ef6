package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// requestState is the state of one request, for its handlers and the log.
type requestState struct {
	begun     time.Time
	method    string // as the client sent it
	request   *http.Request
	body      *body
	upgrade   bool
	unsafe    bool
	route     *route
	resources []string
	sent      atomic.Bool // at least a part was sent to the upstream
	bounded   bool        // the time limit lasts until the answer's end, otherwise until its begin
	limit     *timeLimit
	err       error // why the request was refused or failed; nil if it was not

	// For the metrics.
	answered, clientGone, storeFailed bool
}

type stateKey struct{}

// stateOf returns nil if the context is not that of a request.
func stateOf(ctx context.Context) *requestState {
	st, _ := ctx.Value(stateKey{}).(*requestState)
	return st
}

// recordRefusal is called by the Middleware.
func recordRefusal(ctx context.Context, err error) { stateOf(ctx).err = err }

// body records why it could not be read to its end. If its length is known, it ends with
// its last byte: the upstream has all of it then, and works, while net/http's transport,
// which sends at once what it reads, reads on. A client that breaks off at that moment,
// as HTTP/2 allows, would otherwise count as one that had not sent everything. (If a
// newer token ends the reading at that moment, the Middleware handles it.)
type body struct {
	io.ReadCloser

	mu       sync.Mutex
	left     int64 // to be read; negative if the length is unknown
	complete bool  // the reader has all of it
	err      error
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ended(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil { // stopped in the meantime
		return 0, b.err
	}
	if b.left > 0 {
		if b.left -= int64(n); b.left <= 0 {
			b.left, err = 0, io.EOF
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		b.complete = true
	case err != nil:
		b.err = err
	}
	return n, err
}

// ended returns what every Read returns from now on, or nil if there may be more.
func (b *body) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && b.left == 0 {
		b.complete = true
		return io.EOF
	}
	return b.err
}

// stop ends the reading with err. It reports true, and does nothing, if the reader has
// the whole body.
func (b *body) stop(err error) (complete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && !b.complete {
		b.err = err
	}
	return b.complete
}

func (b *body) readError() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// recorder records the status that the client gets.
type recorder struct {
	http.ResponseWriter
	status   int
	complete bool // the handler has returned: no panic has cut the answer off
}

// Unwrap is for http.ResponseController.
func (a *recorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *recorder) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *recorder) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

var errTimeout = errors.New("the upstream did not answer in time")

// responseTime is how long a client may take to read the answer after the time limit.
const responseTime = time.Second

// timeLimit ends a request that takes too long: the request to the upstream, the reading
// of the client's body, and the writing of the answer. A handler that reads from or
// writes to the client does not watch a context.
type timeLimit struct {
	timer *time.Timer

	mu      sync.Mutex
	ended   bool // the handler has returned, or the limit was lifted
	expired bool
}

func newTimeLimit(d time.Duration, w http.ResponseWriter, b *body, cancel context.CancelCauseFunc) *timeLimit {
	l := new(timeLimit)
	l.timer = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended {
			return
		}
		l.expired = true
		control := http.NewResponseController(w)
		if b != nil && !b.stop(errTimeout) {
			_ = control.SetReadDeadline(time.Now())
		}
		_ = control.SetWriteDeadline(time.Now().Add(responseTime))
		cancel(errTimeout)
	})
	return l
}

// end lifts the limit. It reports false if the time had passed before.
func (l *timeLimit) end() bool {
	l.timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return !l.expired
}

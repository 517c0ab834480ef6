package httpguard_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// putting has a handler at work on a request with this body. It is told to go in
// the middle.
func putting(t *testing.T, body io.Reader, length int64, handler func(body io.Reader, tell func())) {
	t.Helper()
	m := httpguard.Middleware{Resources: accounts, Window: &httpguard.Window{}}
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/accounts/42", body)
	r.ContentLength = length
	r.SetPathValue("id", "42")
	r.Header.Set(httpguard.Header, line("account/42", 34, "a"))
	called := false
	m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called = true
		handler(r.Body, func() { require.Equal(t, http.StatusServiceUnavailable, newer(t, m)) })
	})).ServeHTTP(httptest.NewRecorder(), r)
	require.True(t, called)
}

func TestABodyEndsWithItsLastByte(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length, read int64
		then         error
	}{
		"one that was read":                          {5, 5, io.EOF},
		"one that was read in part":                  {5, 4, guard.ErrStale},
		"one that nobody has read":                   {5, 0, guard.ErrStale},
		"one without a length, whose end has not":    {-1, 5, guard.ErrStale},
		"one of net/http's clients without a length": {0, 0, guard.ErrStale},
		"one that was unpacked, beyond its length":   {3, 4, guard.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			putting(t, strings.NewReader("older"), c.length, func(body io.Reader, tell func()) {
				_, err := io.CopyN(io.Discard, body, c.read)
				require.NoError(t, err)
				tell()
				for range 2 {
					n, err := body.Read(make([]byte, 10))
					require.Zero(t, n)
					require.ErrorIs(t, err, c.then)
				}
			})
		})
	}
}

// Who packs bodies behind the client and unpacks them in front of the guard may
// have left the length as it was.
func TestABodyThatIsLongerThanItsLengthIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	putting(t, strings.NewReader("older"), 3, func(body io.Reader, _ func()) {
		_, err := io.CopyN(io.Discard, body, 3)
		require.NoError(t, err)
		rest, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "er", string(rest))
	})
}

// cut is a body without its end: the connection is interrupted there.
type cut struct {
	*strings.Reader
	at func()
}

var errCut = errors.New("i/o timeout")

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		c.at()
		err = errCut
	}
	return n, err
}

// Over HTTP/2 the end may come in a frame of its own, long after the last byte.
func TestWhoReadsOnBehindTheLastByteIsNotRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length int64
		stale  bool
	}{
		"behind the last byte": {5, false},
		"in front of it":       {6, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told func()
			putting(t, cut{strings.NewReader("older"), func() { told() }}, c.length, func(body io.Reader, tell func()) {
				told = tell
				read, err := io.ReadAll(body)
				require.Equal(t, "older", string(read))
				require.Equal(t, c.stale, errors.Is(err, guard.ErrStale))
				require.Equal(t, c.stale, errors.Is(err, errCut))
			})
		})
	}
}

package httpguard_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// wire sends bytes as no client of net/http would, and returns the status.
func (s site) wire(request string) int {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(s.t, err)
	defer conn.Close()
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n"))
	require.NoError(s.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestFieldsOnTheWire(t *testing.T) {
	t.Parallel()
	good := line("account/42", 33, "a")
	for name, test := range map[string]struct {
		fields string
		status int
	}{
		"the field's name in any case":       {"fEnCiNg-tOkEn: " + good, 204},
		"spaces and tabs around the value":   {"Fencing-Token: \t " + good + " \t", 204},
		"a line folded behind a comma":       {"Fencing-Token: " + good + ",\n " + line("b", 1, "a"), 204},
		"a line folded inside a member":      {"Fencing-Token: 33\n ;r=\"account/42\";h=\"a\"", 400},
		"two lines in two cases":             {"fencing-token: " + good + "\nFENCING-TOKEN: " + good, 400},
		"bytes that are not ASCII":           {"Fencing-Token: 33;r=\"gr\xf6\xdfe\";h=\"a\"", 400},
		"a NUL":                              {"Fencing-Token: 33;r=\"a\x00\";h=\"a\"", 400},
		"a space before the colon":           {"Fencing-Token : " + good, 400},
		"an underscore is another field":     {"Fencing_Token: " + good, 428},
		"a field named by Connection":        {"Connection: Fencing-Token\nFencing-Token: " + good, 204},
		"an empty line of the field, beside": {"Fencing-Token:\nFencing-Token: " + good, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}}), false)
			require.Equal(t, test.status, s.wire("PUT /accounts/42 HTTP/1.1\nHost: x\n"+test.fields+"\n\n"))
		})
	}
}

func TestTrailersAreNoTokens(t *testing.T) {
	t.Parallel()
	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts}), false)
	require.Equal(t, http.StatusPreconditionRequired, s.wire("PUT /accounts/42 HTTP/1.1\nHost: x\n"+
		"Transfer-Encoding: chunked\nTrailer: Fencing-Token\n\n0\nFencing-Token: "+line("account/42", 33, "a")+"\n\n"))
}

func TestTwoTokensForOneResource(t *testing.T) {
	t.Parallel()
	// hazard W5
	marks := at(t)
	zombie := []string{line("account/42", 34, "b"), line("account/42", 32, "a")}
	var wrote token.Token

	// The naive pair: the middleware judges the first line, as Header.Get
	// returns it, and the handler takes the last, as a folding proxy or a map
	// leaves it. One is admitted, the other one writes.
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var judged token.Token
		assert.NoError(t, judged.UnmarshalText([]byte(r.Header.Get(httpguard.Header))))
		assert.NoError(t, marks.Admit(r.Context(), judged))
		lines := r.Header.Values(httpguard.Header)
		assert.NoError(t, wrote.UnmarshalText([]byte(lines[len(lines)-1])))
	})
	require.Equal(t, http.StatusOK, serve(t, naive, false).do("PUT", "/", zombie...).status)
	require.ErrorIs(t, marks.Admit(t.Context(), wrote), guard.ErrStale, "a stale token has written")

	b := &bank{}
	s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: marks}), false)
	for _, lines := range [][]string{zombie, {strings.Join(zombie, ", ")}, {zombie[0], zombie[0]}} {
		got := s.do("PUT", "/accounts/42", lines...)
		require.Equal(t, http.StatusBadRequest, got.status)
		require.Contains(t, got.problem(t)["detail"], "member 2: must be the only token of its resource")
	}
	require.Empty(t, b.written())
}

func TestMalformedIsNeverIgnored(t *testing.T) {
	t.Parallel()
	// hazard W4
	marks, b := at(t), &bank{}

	// The naive middleware takes a field it cannot read for one that is not
	// there, and fencing for something clients may opt into.
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tok token.Token
		if err := tok.UnmarshalText([]byte(r.Header.Get(httpguard.Header))); err == nil {
			if err := marks.Admit(r.Context(), tok); err != nil {
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
		}
		b.ServeHTTP(w, r)
	})
	stale := line("account/42", 32, "a")
	s := serve(t, naive, false)
	require.Equal(t, http.StatusPreconditionFailed, s.do("PUT", "/accounts/42", stale).status)
	for _, field := range []string{stale + ",", strings.TrimSuffix(stale, `"`), ""} {
		require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", field).status)
	}
	require.Len(t, b.written(), 3, "stale writes were applied")

	b = &bank{}
	s = serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: marks}), false)
	for _, field := range []string{stale + ",", strings.TrimSuffix(stale, `"`)} {
		require.Equal(t, http.StatusBadRequest, s.do("PUT", "/accounts/42", field).status)
	}
	require.Equal(t, http.StatusPreconditionRequired, s.do("PUT", "/accounts/42", "").status)
	require.Empty(t, b.written())
}

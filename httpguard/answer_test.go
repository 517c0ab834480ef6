package httpguard_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

// written returns what WriteAnswer sends for stored.
func written(stored []byte) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "7")
	httpguard.WriteAnswer(w, httptest.NewRequest("POST", "/", nil), stored)
	return w.Result()
}

func TestAnswersAreWrittenAsTheyWereEncoded(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]httpguard.Answer{
		"the zero Answer":  {},
		"a status":         {Status: http.StatusNoContent},
		"a refusal":        {Status: http.StatusPaymentRequired, Body: []byte("no funds")},
		"fields":           {Header: http.Header{"Location": {"/a"}, "Link": {"<b>", "<c>"}, "Etag": {`"é"`}}},
		"any body":         {Body: []byte("\r\n\r\n\x00\x01\xff: a\r\n")},
		"an empty field":   {Header: http.Header{"Cache-Control": {""}}},
		"fields and lines": {Header: http.Header{"Vary": {"a"}}, Body: []byte("\r\nVary: b\r\n\r\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, err := a.Encode(t.Context())
			require.NoError(t, err)
			got := written(stored)
			if a.Status == 0 {
				a.Status = http.StatusOK
			}
			require.Equal(t, a.Status, got.StatusCode)
			var body bytes.Buffer
			_, err = body.ReadFrom(got.Body)
			require.NoError(t, err)
			require.Equal(t, string(a.Body), body.String())
			for name, values := range a.Header {
				require.Equal(t, values, got.Header[name])
			}
			require.Equal(t, "7", got.Header.Get("X-Request-Id"), "a field of this attempt")
		})
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]httpguard.Answer{
		"a status that is not final": {Status: 103},
		"no status":                  {Status: 600},
		"a cookie":                   {Header: http.Header{"Set-Cookie": {"a=b"}}},
		"a trailer":                  {Header: http.Header{http.TrailerPrefix + "Etag": {"x"}}},
		"a field of the connection":  {Header: http.Header{"Connection": {"close"}}},
		"a control character":        {Header: http.Header{"Location": {"/a\x00"}}},
		"a body after 204":           {Status: 204, Body: []byte("x")},
	} {
		_, err := a.Encode(t.Context())
		require.ErrorContains(t, err, "httpguard: Answer: ", name)
	}
}

func TestAResultThatIsNoAnswerIs500(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]string{
		"nothing":            "",
		"another version":    "\x02200\r\n\r\n",
		"only a version":     "\x01",
		"no status":          "\x01\r\n\r\n",
		"a status of 100":    "\x01100\r\n\r\n",
		"no end of a header": "\x01200\r\nVary: a\r\n",
		"no header":          "\x01200\r\nVary\r\n\r\n",
	} {
		got := written([]byte(stored))
		require.Equal(t, http.StatusInternalServerError, got.StatusCode, name)
		var body bytes.Buffer
		_, err := body.ReadFrom(got.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"about:blank","title":"Internal Server Error","status":500}`, body.String(), "it claims nothing")
	}
	require.True(t, logged.has("no Answer of this version"))
}

// Encode and WriteAnswer agree, and WriteAnswer answers 500 to all else.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "Location", "/a", []byte("text"), []byte("\x01200\r\n\r\n"))
	f.Add(204, "etag", "a\r\nb: c", []byte(nil), []byte("\x01204\r\nVary: \xff\r\n\r\nx"))
	f.Fuzz(func(t *testing.T, status int, name, value string, body, stored []byte) {
		_ = written(stored)
		a := httpguard.Answer{Status: status, Header: http.Header{name: {value}}, Body: body}
		encoded, err := a.Encode(t.Context())
		if err != nil {
			return
		}
		got := written(encoded)
		if status != 0 {
			require.Equal(t, status, got.StatusCode)
		}
		var sent bytes.Buffer
		_, err = sent.ReadFrom(got.Body)
		require.NoError(t, err)
		require.Equal(t, string(body), sent.String())
		require.Len(t, got.Header[http.CanonicalHeaderKey(name)], 1)
	})
}

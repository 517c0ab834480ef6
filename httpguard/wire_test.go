package httpguard_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// raw sends the bytes unchanged, and returns the response. Its status is reset if the
// server closes the connection instead.
func (s site) raw(request string) reply {
	s.t.Helper()
	conn := s.dial()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		require.NoError(s.t, hungUp(err))
		return reply{status: reset}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, hungUp(err))
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

func TestTwoTokensForOneResource(t *testing.T) {
	t.Parallel()
	// hazard W5
	marks := at(t)
	zombie := []string{line("account/42", 34, "b"), line("account/42", 32, "a")}
	var wrote token.Token

	// In the naive pair the middleware admits the first line, as Header.Get returns it,
	// and the handler uses the last, as a folding proxy or a map leaves it. One token
	// is admitted, and the other one writes.
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var admitted token.Token
		assert.NoError(t, admitted.UnmarshalText([]byte(r.Header.Get(httpguard.Header))))
		assert.NoError(t, marks.Admit(r.Context(), admitted))
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

	// The naive middleware treats a malformed field as an absent one, and fencing as
	// optional.
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

// Frames of HTTP/2 (RFC 9113 §6) and their flags.
const (
	frameData, frameHeaders, frameReset, frameSettings = 0, 1, 3, 4
	framePing, frameGoAway, frameContinuation          = 6, 7, 9
	flagEnd, flagEndHeaders, flagPadded, flagPriority  = 1, 4, 8, 0x20
	flagAck                                            = 1
	frameMax                                           = 16 << 10
)

// reset is the status of a request that the server refused without one.
const reset = 0

// frames sends a PUT over HTTP/2 with fields that no client of net/http would send, with
// names unchanged, and returns the status. Trailers, if any, follow an empty body.
func (s site) frames(path string, fields, trailers [][2]string) int {
	s.t.Helper()
	request := [][2]string{{":method", "PUT"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}}
	out := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, 0, "")
	if len(trailers) == 0 {
		out += headerFrames(append(request, fields...), flagEnd)
	} else {
		out += headerFrames(append(request, fields...), 0) + frame(frameData, 0, 1, "") + headerFrames(trailers, flagEnd)
	}
	return s.speak(out)
}

// speak sends out over HTTP/2, and returns the status of the response.
func (s site) speak(out string) int {
	s.t.Helper()
	conn := s.dialTLS()
	defer conn.Close()
	require.Equal(s.t, "h2", conn.ConnectionState().NegotiatedProtocol)
	go func() { _, _ = io.WriteString(conn, out) }() // the server may close the connection in the middle
	status, err := readStatus(conn)
	require.NoError(s.t, err)
	return status
}

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	return string(head) + payload
}

// headerFrames writes every field as a literal that is never indexed, without Huffman's
// code (RFC 7541 §6.2.3), as a signature should be sent.
func headerFrames(fields [][2]string, flags byte) string {
	var block strings.Builder
	for _, field := range fields {
		block.WriteByte(0x10)
		for _, text := range field {
			block.WriteString(length(len(text)) + text)
		}
	}
	var out strings.Builder
	kind, rest := byte(frameHeaders), block.String()
	for len(rest) > frameMax {
		out.WriteString(frame(kind, flags, 1, rest[:frameMax]))
		kind, flags, rest = frameContinuation, 0, rest[frameMax:]
	}
	out.WriteString(frame(kind, flags|flagEndHeaders, 1, rest))
	return out.String()
}

// length encodes an integer with a prefix of seven bits (RFC 7541 §5.1).
func length(n int) string {
	const most = 1<<7 - 1
	if n < most {
		return string([]byte{byte(n)})
	}
	return string(binary.AppendUvarint([]byte{most}, uint64(n-most)))
}

// readStatus reads frames up to a response, a reset or the end.
func readStatus(conn io.ReadWriter) (int, error) {
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return reset, hungUp(err)
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return reset, hungUp(err)
		}
		switch kind, flags := head[3], head[4]; {
		case kind == frameHeaders && flags&(flagPadded|flagPriority) == 0:
			return statusOf(payload)
		case kind == frameHeaders:
			return reset, errors.New("a padded header")
		case kind == frameReset, kind == frameGoAway && binary.BigEndian.Uint32(payload[4:8]) != 0:
			return reset, nil
		case kind == framePing && flags&flagAck == 0:
			_, _ = io.WriteString(conn, frame(framePing, flagAck, 0, string(payload)))
		}
	}
}

// hungUp ignores an error that the connection was closed after data arrived.
func hungUp(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return err
	}
	return nil
}

// statusOf reads the first field of a header block, which is :status: an entry of the
// table (RFC 7541, appendix A), or digits. Statuses that are shorter in Huffman's code, such
// as 412, are none of those that the tests expect.
func statusOf(block []byte) (int, error) {
	indexed := map[byte]int{
		0x88: 200, 0x89: 204, 0x8a: 206, 0x8b: 304, 0x8c: 400, 0x8d: 404, 0x8e: 500,
	}
	if status, ok := indexed[block[0]]; ok {
		return status, nil
	}
	if len(block) < 5 || block[0] < 0x48 || block[0] > 0x4e || block[1] != 3 {
		return reset, fmt.Errorf("no status in %x", block)
	}
	return digits(string(block[2:5]))
}

func digits(text string) (status int, err error) {
	_, err = fmt.Sscanf(text, "%3d", &status)
	if http.StatusText(status) == "" {
		err = errors.Join(err, fmt.Errorf("no status: %q", text))
	}
	return status, err
}

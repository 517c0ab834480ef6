package httpguard_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Frames of HTTP/2 (RFC 9113 §6) and their flags.
const (
	frameData, frameHeaders, frameReset, frameSettings = 0, 1, 3, 4
	framePing, frameGoAway, frameContinuation          = 6, 7, 9
	flagEnd, flagEndHeaders, flagPadded, flagPriority  = 1, 4, 8, 0x20
	flagAck                                            = 1
	frameMax                                           = 16 << 10
)

// reset is the status of a request that the server refused without any.
const reset = 0

// frames sends a PUT over HTTP/2 with fields that no client of net/http would
// send, names as they are written, and returns the status. Trailers stand
// behind an empty body, if there are any.
func (s site) frames(path string, fields, trailers [][2]string) int {
	s.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	conn, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}})
	require.NoError(s.t, err)
	defer conn.Close()
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	require.Equal(s.t, "h2", conn.ConnectionState().NegotiatedProtocol)

	request := [][2]string{{":method", "PUT"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}}
	out := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, 0, "")
	if len(trailers) == 0 {
		out += headerFrames(append(request, fields...), flagEnd)
	} else {
		out += headerFrames(append(request, fields...), 0) + frame(frameData, 0, 1, "") + headerFrames(trailers, flagEnd)
	}
	go func() { _, _ = io.WriteString(conn, out) }() // the server may hang up in the middle
	status, err := readStatus(conn)
	require.NoError(s.t, err)
	return status
}

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	return string(head) + payload
}

// headerFrames writes every field as a literal, never indexed and without
// Huffman's code (RFC 7541 §6.2.3), as a seal should be sent.
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

// length is an integer with a prefix of seven bits (RFC 7541 §5.1).
func length(n int) string {
	const most = 1<<7 - 1
	if n < most {
		return string([]byte{byte(n)})
	}
	return string(binary.AppendUvarint([]byte{most}, uint64(n-most)))
}

// readStatus reads frames up to an answer, a reset or the end.
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

// hungUp lets pass that the connection was ended, but not that nothing came.
func hungUp(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return err
	}
	return nil
}

// statusOf reads the first field of a header block, which is :status: one of
// the table's (RFC 7541, appendix A), or digits in Huffman's code (appendix B).
func statusOf(block []byte) (int, error) {
	indexed := map[byte]int{
		0x88: 200, 0x89: 204, 0x8a: 206, 0x8b: 304, 0x8c: 400, 0x8d: 404, 0x8e: 500,
	}
	if status, ok := indexed[block[0]]; ok {
		return status, nil
	}
	if len(block) < 5 || block[0] < 0x48 || block[0] > 0x4e {
		return reset, fmt.Errorf("no status in %x", block)
	}
	if block[1] == 3 {
		return digits(string(block[2:5]))
	}
	bits := ""
	for _, b := range block[2 : 2+int(block[1]&0x7f)] {
		bits += fmt.Sprintf("%08b", b)
	}
	text := ""
	for len(text) < 3 {
		n, code := 6, map[string]string{"011001": "3", "011010": "4", "011011": "5", "011100": "6", "011101": "7", "011110": "8", "011111": "9"}
		if strings.HasPrefix(bits, "000") {
			n, code = 5, map[string]string{"00000": "0", "00001": "1", "00010": "2"}
		}
		text, bits = text+code[bits[:n]], bits[n:]
	}
	return digits(text)
}

func digits(text string) (status int, err error) {
	_, err = fmt.Sscanf(text, "%3d", &status)
	if http.StatusText(status) == "" {
		err = errors.Join(err, fmt.Errorf("no status: %q", text))
	}
	return status, err
}

package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var errTold = errors.New("told to go")

// told is a body whose reader is told to go after its last byte.
type told struct{ *strings.Reader }

func (b told) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errTold
	}
	return n, err
}

func (told) Close() error { return nil }

func TestABodyThatIsWholeIsNotBrokenByWhatComesAfter(t *testing.T) {
	t.Parallel()
	whole := &body{ReadCloser: told{strings.NewReader("older")}, left: 5}
	read, err := io.ReadAll(whole)
	require.NoError(t, err)
	require.Equal(t, "older", string(read))
	require.NoError(t, whole.broken())

	cut := &body{ReadCloser: told{strings.NewReader("old")}, left: 5}
	_, err = io.ReadAll(cut)
	require.ErrorIs(t, err, errTold)
	require.ErrorIs(t, cut.broken(), errTold)

	// Of one without a length only its end tells, which the upstream is told too.
	chunked := &body{ReadCloser: told{strings.NewReader("older")}, left: -1}
	_, err = io.ReadAll(chunked)
	require.ErrorIs(t, err, errTold)
}

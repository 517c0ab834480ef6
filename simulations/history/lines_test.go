package history_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

func TestOpsSurviveTheWayThroughJSON(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	e := history.NewEncoder(&text)
	ops := crowd(2000).Ops
	for i, op := range ops {
		require.NoError(t, e.Encode(history.Line{ID: uint64(i + 1), Open: i%2 == 0, Op: op}))
	}
	d := history.NewDecoder(&text)
	for i, op := range ops {
		line, err := d.Decode()
		require.NoError(t, err)
		require.Equal(t, history.Line{ID: uint64(i + 1), Open: i%2 == 0, Op: op}, line)
	}
	_, err := d.Decode()
	require.Equal(t, io.EOF, err)
}

func TestABadLineIsNamed(t *testing.T) {
	t.Parallel()
	d := history.NewDecoder(strings.NewReader(`{"kind":"read","writer":"A","resource":"r","outcome":"accepted"}` + "\n{}\n"))
	_, err := d.Decode()
	require.NoError(t, err)
	_, err = d.Decode()
	require.ErrorContains(t, err, "history: line 2: ")
	var malformed *history.OpError
	require.ErrorAs(t, err, &malformed)
}

func TestALineThatIsCutOffIsNotTheEnd(t *testing.T) {
	t.Parallel()
	_, err := history.NewDecoder(strings.NewReader(`{"kind":"read"`)).Decode()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"started":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"id":1,"kind":"read","writer":"A","resource":"r","outcome":"accepted","began":1,"ended":2,"counted":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		line, err := history.NewDecoder(bytes.NewReader(append(text, '\n'))).Decode()
		if err != nil {
			return
		}
		if line.Started.IsZero() {
			require.NoError(t, line.Check())
		}
		var again bytes.Buffer
		require.NoError(t, history.NewEncoder(&again).Encode(line))
		same, err := history.NewDecoder(&again).Decode()
		require.NoError(t, err)
		require.True(t, line.Started.Equal(same.Started))
		same.Started = line.Started
		require.Equal(t, line, same)
	})
}

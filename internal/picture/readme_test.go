package picture_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/picture"
	"github.com/fencepost/fencepost/simulations/history"
)

var update = flag.Bool("update", false, "write the README's pictures anew")

// The README's pictures are two rounds of `fencepost simulate`, as they were
// recorded, under a shorter name.
func TestThePicturesOfTheReadme(t *testing.T) {
	t.Parallel()
	for name, title := range map[string]string{
		"unguarded": "The lock alone: A writes over what B was told is stored",
		"guarded":   "The same moment, guarded: A is refused",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scene := picture.Scene{Title: title, History: recorded(t, "testdata/"+name+".json")}
			broken, err := history.Check(scene.History)
			require.NoError(t, err)
			require.Equal(t, name == "unguarded", len(broken) > 0)
			scene.Violations = broken
			var drawn bytes.Buffer
			require.NoError(t, picture.WriteSVG(&drawn, scene))
			file := "../../docs/" + name + ".svg"
			if *update {
				require.NoError(t, os.WriteFile(file, drawn.Bytes(), 0o644))
			}
			committed, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(committed), drawn.String(), "go test ./internal/picture -run Readme -update")
		})
	}
}

// recorded is a history as a Recorder's report has it: a line each.
func recorded(t *testing.T, name string) (h history.History) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	lines := history.NewDecoder(file)
	for {
		line, err := lines.Decode()
		if errors.Is(err, io.EOF) {
			return h
		}
		require.NoError(t, err)
		h.Ops = append(h.Ops, line.Op)
	}
}

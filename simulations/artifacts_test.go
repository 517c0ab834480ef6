//go:build go1.26

package simulations_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Go 1.25 has neither the flag -artifacts nor T.ArtifactDir.
func TestThePictureIsAnArtifactWhereTheyAreKept(t *testing.T) {
	t.Parallel()
	temp, kept := t.TempDir(), t.TempDir()
	out, failed := run(t, temp, "-test.run", "^TestUnguarded$", "-test.artifacts", "-test.outputdir", kept)
	require.True(t, failed)
	require.Empty(t, pages(t, temp))
	found := regexp.MustCompile(`A picture of it: (.*) \(open`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	require.True(t, strings.HasPrefix(found[1], kept), found[1])
	require.FileExists(t, found[1])
}

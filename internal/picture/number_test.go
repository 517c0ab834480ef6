package picture_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/picture"
)

func TestNumbersAreSaidAsShortlyAsTheyDiffer(t *testing.T) {
	t.Parallel()
	require.Equal(t, "#41", picture.Short(42, 41))
	require.Equal(t, "#…2715", picture.Short(179519105562874, 179519105562715))
	require.Equal(t, "#…05562715", picture.Short(179519115562874, 179519105562715), "all that differs")
	require.Equal(t, "#179519105562715", picture.Short(99, 179519105562715), "other lengths")
	require.Equal(t, "#17951910556", picture.Short(179519105562715, 17951910556), "which begin alike")
	require.Equal(t, "#…2715", picture.Short(179519105562715, 179519105562715))
	require.Equal(t, "#999999999999999", picture.Short(100000000000000, 999999999999999))
	require.Equal(t, "no number", picture.Short(0, 0))
}

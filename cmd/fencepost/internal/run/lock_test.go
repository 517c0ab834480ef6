package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestApplicationIsCutAtACharacter(t *testing.T) {
	t.Parallel()
	for name, expected := range map[string]string{
		"account/42":                  "fencepost run account/42",
		strings.Repeat("x", 49):       "fencepost run " + strings.Repeat("x", 49),
		strings.Repeat("x", 50):       "fencepost run " + strings.Repeat("x", 49),
		strings.Repeat("x", 47) + "é": "fencepost run " + strings.Repeat("x", 47) + "é",
		strings.Repeat("x", 48) + "é": "fencepost run " + strings.Repeat("x", 48),
		strings.Repeat("x", 46) + "😀": "fencepost run " + strings.Repeat("x", 46),
	} {
		require.Equal(t, expected, application(name))
	}
}

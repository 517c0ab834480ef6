package token_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

func TestCheckResource(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("r", token.MaxName)
	for name, rule := range map[string]string{
		"account/42":                 "",
		"a":                          "",
		" ":                          "",
		"größe":                      "",
		"日本 🔒":                       "",
		`"{}\%`:                      "",
		"\ufffd":                     "",
		full:                         "",
		strings.Repeat("日", 66):      "",
		"":                           "must not be empty",
		full + "r":                   "must be at most 200 bytes",
		strings.Repeat("日", 67):      "must be at most 200 bytes",
		"\xff":                       "must be UTF-8",
		"half \xc3":                  "must be UTF-8",
		"surrogate \xed\xa0\x80":     "must be UTF-8",
		"\x00":                       "must not contain control characters",
		"line\nfeed":                 "must not contain control characters",
		"tab\t":                      "must not contain control characters",
		"delete \x7f":                "must not contain control characters",
		"next line \u0085, C1":       "must not contain control characters",
		"escape \x1b[31m":            "must not contain control characters",
		strings.Repeat("\x00", 1000): "must be at most 200 bytes",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := token.CheckResource(name)
			if rule == "" {
				require.NoError(t, err)
				return
			}
			var invalid *token.InvalidError
			require.True(t, errors.As(err, &invalid))
			require.ErrorIs(t, err, token.ErrInvalid)
			require.Equal(t, "resource", invalid.Part)
			require.Equal(t, rule, invalid.Rule)
			require.Equal(t, name[:min(len(name), token.MaxName)], invalid.Value)
		})
	}
}

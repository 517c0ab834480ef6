package structfield_test

import (
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/structfield"
)

const zeros = ":AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"

func TestSignatureIsWhatWasAdded(t *testing.T) {
	t.Parallel()
	code := [32]byte{31: 1}
	for text, want := range map[string]structfield.Signature{
		``: {},
		`;k="2026-11";s=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=:`:      {Key: "2026-11", Code: code},
		`;k="2026-11";x=12;s=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=:`: {Key: "2026-11", Until: 12, Code: code},
		`;k="a";s=` + zeros: {Key: "a"},
	} {
		require.NoError(t, want.Validate())
		item := structfield.Item(33, "r", "h")
		want.AddTo(item)
		printed, err := httpsfv.Marshal(item)
		require.NoError(t, err)
		require.Equal(t, `33;r="r";h="h"`+text, printed)
		got, err := structfield.SignatureOf(item)
		require.NoError(t, err)
		require.Equal(t, want, got)
		number, resource, holder, err := parts(t, printed)
		require.NoError(t, err)
		require.Equal(t, []any{int64(33), "r", "h"}, []any{number, resource, holder})
	}
}

func TestSignatureOfReturnsAnErrorForAMalformedSignature(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		`;s=` + zeros:             "must have the parameter k beside s",
		`;x=1;s=` + zeros:         "must have the parameter k beside s",
		`;k="a"`:                  "must have the parameter s beside k or x",
		`;x=1`:                    "must have the parameter s beside k or x",
		`;k;s=` + zeros:           "parameter k must be a String",
		`;k=%"a";s=` + zeros:      "parameter k must be a String",
		`;k="a b";s=` + zeros:     "parameter k must be a String",
		`;k="a";x;s=` + zeros:     "parameter x must be an Integer",
		`;k="a";x=1.0;s=` + zeros: "parameter x must be an Integer",
		`;k="a";x=-1;s=` + zeros:  "parameter x must be an Integer",
		`;k="a";s="AAAA"`:         "parameter s must be a Byte Sequence",
		`;k="a";s`:                "parameter s must be a Byte Sequence",
	} {
		item, err := httpsfv.UnmarshalItem([]string{`33;r="r";h="h"` + params})
		require.NoError(t, err)
		s, err := structfield.SignatureOf(item)
		require.ErrorContains(t, err, want, params)
		require.Zero(t, s)
	}
}

func TestValidateRefusesWhatSignatureOfRefuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]structfield.Signature{
		"a code without a key": {Code: [32]byte{1}},
		"an end without a key": {Until: 1},
		"a key that is no id":  {Key: "a b"},
		"an end before all":    {Key: "a", Until: -1},
		"an end too late":      {Key: "a", Until: 1e15},
	} {
		require.Error(t, s.Validate(), name)
	}
}

func TestIsID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "Z", "0", "2026-11", "._-", strings.Repeat("k", 64)} {
		require.True(t, structfield.IsID(id), id)
	}
	for _, id := range []string{"", " ", "a b", "ä", "a\n", "a/b", "a=", `"`, "\x00", strings.Repeat("k", 65)} {
		require.False(t, structfield.IsID(id), id)
	}
}

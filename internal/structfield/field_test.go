package structfield_test

import (
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/structfield"
)

func TestPartsAreWhatItemWasGiven(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		resource, holder, text string
	}{
		"plain names are Strings":               {"account/42", "worker-1", `33;r="account/42";h="worker-1"`},
		"quotes and backslashes are escaped":    {`a"b`, `c\d`, `33;r="a\"b";h="c\\d"`},
		"other names are Display Strings":       {"größe", "a", `33;r=%"gr%c3%b6%c3%9fe";h="a"`},
		"a percent sign is plain in a String":   {"100%", "a", `33;r="100%";h="a"`},
		"a percent sign is coded in the others": {"ö%", "a", `33;r=%"%c3%b6%25";h="a"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := httpsfv.Marshal(structfield.Item(33, want.resource, want.holder))
			require.NoError(t, err)
			require.Equal(t, want.text, text)

			number, resource, holder, err := parts(t, text)
			require.NoError(t, err)
			require.EqualValues(t, 33, number)
			require.Equal(t, want.resource, resource)
			require.Equal(t, want.holder, holder)
		})
	}
}

func TestPartsAcceptsOtherSpellings(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"parameters in another order":       `33;h="a";r="r"`,
		"parameters that it does not know":  `33;signature=:AAAA:;r="r";x;h="a"`,
		"the last of two with one name":     `33;r="q";r="r";h="a"`,
		"a Display String of plain letters": `33;r=%"r";h="a"`,
		"spaces that the grammar allows":    `  33; r="r"; h="a"  `,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			number, resource, holder, err := parts(t, text)
			require.NoError(t, err)
			require.EqualValues(t, 33, number)
			require.Equal(t, "r", resource)
			require.Equal(t, "a", holder)
		})
	}
}

func TestPartsReturnsAnErrorForAMissingPart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`33.0;r="r";h="a"`:   "must be an Integer (RFC 9651 §3.3.1), not a Decimal",
		`"33";r="r";h="a"`:   "must be an Integer (RFC 9651 §3.3.1), not a String",
		`?1;r="r";h="a"`:     "must be an Integer (RFC 9651 §3.3.1), not a Boolean",
		`tok;r="r";h="a"`:    "must be an Integer (RFC 9651 §3.3.1), not a Token",
		`:AA==:;r="r";h="a"`: "must be an Integer (RFC 9651 §3.3.1), not a Byte Sequence",
		`%"x";r="r";h="a"`:   "must be an Integer (RFC 9651 §3.3.1), not a Display String",
		`@1;r="r";h="a"`:     "must be an Integer (RFC 9651 §3.3.1), not a Date",
		`33;h="a"`:           "must have the parameter r",
		`33;r="r"`:           "must have the parameter h",
		`33;r;h="a"`:         "parameter r must be a String or Display String",
		`33;r=r;h="a"`:       "parameter r must be a String or Display String",
		`33;r="r";h=1`:       "parameter h must be a String or Display String",
		`33;r="r";h=:AAAA:`:  "parameter h must be a String or Display String",
		`33;R="r";r="r";h=1`: "", // keys are lower case: no Item at all
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			item, err := httpsfv.UnmarshalItem([]string{text})
			if want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			_, _, _, err = structfield.Parts(item)
			require.EqualError(t, err, want)
		})
	}
}

func parts(t *testing.T, text string) (number int64, resource, holder string, err error) {
	t.Helper()
	item, err := httpsfv.UnmarshalItem([]string{text})
	require.NoError(t, err)
	return structfield.Parts(item)
}

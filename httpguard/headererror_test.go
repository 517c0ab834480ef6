package httpguard_test

import (
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// malformed are fields that must never be read as anything: the member that
// breaks a rule, and the rule.
var malformed = map[string]struct {
	lines  []string
	member int
	rule   string
}{
	"words":                     {[]string{`abc`}, 1, "must be an Integer"},
	"a bare number":             {[]string{`33`}, 1, "must have the parameter r"},
	"no holder":                 {[]string{`33;r="account/42"`}, 1, "must have the parameter h"},
	"no resource":               {[]string{`33;h="a"`}, 1, "must have the parameter r"},
	"an empty holder":           {[]string{`33;r="account/42";h=""`}, 1, "holder must not be empty"},
	"an empty resource":         {[]string{`33;r="";h="a"`}, 1, "resource must not be empty"},
	"a resource without quotes": {[]string{`33;r=account/42;h="a"`}, 1, "parameter r must be a String"},
	"a holder that is a number": {[]string{`33;r="account/42";h=7`}, 1, "parameter h must be a String"},
	"a holder that is bytes":    {[]string{`33;r="account/42";h=:YQ==:`}, 1, "parameter h must be a String"},
	"a parameter without value": {[]string{`33;r;h="a"`}, 1, "parameter r must be a String"},
	"a decimal":                 {[]string{`33.0;r="account/42";h="a"`}, 1, "must be an Integer"},
	"a number in quotes":        {[]string{`"33";r="account/42";h="a"`}, 1, "must be an Integer"},
	"a date":                    {[]string{`@33;r="account/42";h="a"`}, 1, "must be an Integer"},
	"a boolean":                 {[]string{`?1;r="account/42";h="a"`}, 1, "must be an Integer"},
	"zero":                      {[]string{`0;r="account/42";h="a"`}, 1, "number must be 1 to"},
	"minus zero":                {[]string{`-0;r="account/42";h="a"`}, 1, "number must be 1 to"},
	"a negative number":         {[]string{`-33;r="account/42";h="a"`}, 1, "number must be 1 to"},
	"a plus sign":               {[]string{`+33;r="account/42";h="a"`}, 0, "must be a List"},
	"hexadecimal":               {[]string{`0x21;r="account/42";h="a"`}, 0, "must be a List"},
	"sixteen digits":            {[]string{`1795169774814316;r="account/42";h="a"`}, 0, "must be a List"},
	"sixteen digits with zeros": {[]string{`0000000000000033;r="account/42";h="a"`}, 0, "must be a List"},
	"an inner list":             {[]string{`(33);r="account/42";h="a"`}, 1, "not an Inner List"},
	"a dictionary":              {[]string{`a=33;r="account/42";h="a"`}, 0, "must be a List"},
	"JSON":                      {[]string{`{"number":33}`}, 0, "must be a List"},
	"an open quote":             {[]string{`33;r="account/42;h="a"`}, 0, "must be a List"},
	"a trailing comma":          {[]string{`33;r="account/42";h="a",`}, 0, "must be a List"},
	"a leading comma":           {[]string{`,33;r="account/42";h="a"`}, 0, "must be a List"},
	"an empty line beside one":  {[]string{``, `33;r="account/42";h="a"`}, 0, "must be a List"},
	"a space before a semicolon": {
		[]string{`33 ;r="account/42";h="a"`}, 0, "must be a List"},
	"capital parameters": {[]string{`33;R="account/42";H="a"`}, 0, "must be a List"},
	"no ASCII in quotes": {[]string{`33;r="größe";h="a"`}, 0, "must be a List"},
	"a name with a line": {[]string{`33;r=%"a%0ab";h="a"`}, 1, "resource must not contain control"},
	"a name that is not UTF-8": {
		[]string{`33;r=%"%ff";h="a"`}, 0, "must be a List"},
	"capital hex digits":  {[]string{`33;r=%"%C3%B6";h="a"`}, 0, "must be a List"},
	"a name too long":     {[]string{`33;r="` + strings.Repeat("n", 201) + `";h="a"`}, 1, "resource must be at most 200"},
	"a good one first":    {[]string{`33;r="account/42";h="a", 34`}, 2, "must have the parameter r"},
	"a bad one elsewhere": {[]string{`34;r="account/7"`, `33;r="account/42";h="a"`}, 1, "must have the parameter h"},
	"two for one resource": {
		[]string{`33;r="account/42";h="a", 34;r="account/42";h="b"`}, 2, "must be the only token of its resource"},
	"two in different lines": {
		[]string{`33;r="account/42";h="a"`, `34;r="account/42";h="b"`}, 2, "must be the only token of its resource"},
	"two that are equal": {
		[]string{`33;r="account/42";h="a"`, `33;r="account/42";h="a"`}, 2, "must be the only token of its resource"},
	"two in two spellings": {
		[]string{`33;r="account/42";h="a", 33;r=%"account/42";h="a"`}, 2, "must be the only token of its resource"},
	"two of another resource": {
		[]string{`33;r="account/42";h="a", 1;r="b";h="a", 2;r="b";h="a"`}, 3, "must be the only token of its resource"},
	"a code without a key":         {[]string{`33;r="a";h="b";s=:AAAA:`}, 1, "must have the parameter k beside s"},
	"a key without a code":         {[]string{`33;r="a";h="b";k="c"`}, 1, "must have the parameter s beside k or x"},
	"an end without a code":        {[]string{`33;r="a";h="b";x=1`}, 1, "must have the parameter s beside k or x"},
	"a key that is no String":      {[]string{`33;r="a";h="b";k=c;s=:AAAA:`}, 1, "parameter k must be a String"},
	"a key that is no id":          {[]string{`33;r="a";h="b";k="c d";s=:AAAA:`}, 1, "parameter k must be a String"},
	"an end that is zero":          {[]string{`33;r="a";h="b";k="c";x=0;s=:AAAA:`}, 1, "parameter x must be an Integer"},
	"an end that is a String":      {[]string{`33;r="a";h="b";k="c";x="1";s=:AAAA:`}, 1, "parameter x must be an Integer"},
	"a code that is a String":      {[]string{`33;r="a";h="b";k="c";s="AAAA"`}, 1, "parameter s must be a Byte Sequence"},
	"a code that is not base64":    {[]string{`33;r="a";h="b";k="c";s=:A:`}, 0, "must be a List"},
	"two seals for one resource":   {[]string{sealedLine, sealedLine}, 2, "must be the only token of its resource"},
	"a bad seal behind a good one": {[]string{sealedLine, `34;r="a";h="b";k="c"`}, 2, "must have the parameter s"},

	"too many":     {[]string{strings.TrimSuffix(strings.Repeat(`1,`, 65), ",")}, 0, "must have at most 64 members"},
	"too long":     {[]string{`33;r="account/42";h="a";x="` + strings.Repeat("x", 8192) + `"`}, 0, "must be at most 8192 bytes"},
	"many lines":   {make([]string, 5000), 0, "must be at most 8192 bytes"},
	"many commas":  {[]string{strings.Repeat(",", 8000)}, 0, "must be a List"},
	"many options": {[]string{`33` + strings.Repeat(";a", 4000)}, 1, "must have the parameter r"},
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range malformed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := httpguard.Parse(test.lines)
			require.Empty(t, got)
			require.ErrorIs(t, err, token.ErrInvalid)
			var header *httpguard.HeaderError
			require.ErrorAs(t, err, &header)
			require.Equal(t, test.member, header.Member)
			require.Contains(t, header.Rule, test.rule)
			require.Contains(t, err.Error(), "httpguard: Fencing-Token: ")
			require.Contains(t, err.Error(), test.rule)
		})
	}
}

func TestParseTellsTheErrorBehind(t *testing.T) {
	t.Parallel()
	_, err := httpguard.Parse([]string{`0;r="a";h="b"`})
	var invalid *token.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "number", invalid.Part)

	_, err = httpguard.Parse([]string{`1,`})
	require.ErrorIs(t, err, httpsfv.ErrInvalidListFormat)
}

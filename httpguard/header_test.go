package httpguard_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

const signedLine = `33;r="account/42";h="a";k="2026-11";x=1795169774;s=:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=:`

// signedToken is the token in signedLine. Its signature is well-formed, and of no key.
func signedToken() signature.Signed {
	s := signature.Signed{Token: tok("account/42", 33, "a"), Key: "2026-11", Until: 1795169774}
	for i := range s.Code {
		s.Code[i] = byte(i + 1)
	}
	return s
}

func tok(resource string, number int64, holder string) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: holder}
}

func TestParse(t *testing.T) {
	t.Parallel()
	one, other := tok("account/42", 33, "a"), tok("account/7", 34, "a")
	for name, test := range map[string]struct {
		lines []string
		want  []token.Token
	}{
		"no line is no token":                       {nil, nil},
		"an empty line is no token":                 {[]string{""}, nil},
		"one token":                                 {[]string{`33;r="account/42";h="a"`}, []token.Token{one}},
		"two tokens in one line":                    {[]string{`33;r="account/42";h="a", 34;r="account/7";h="a"`}, []token.Token{one, other}},
		"two tokens without a space":                {[]string{`33;r="account/42";h="a",34;r="account/7";h="a"`}, []token.Token{one, other}},
		"several lines are one list":                {[]string{`33;r="account/42";h="a"`, `34;r="account/7";h="a"`}, []token.Token{one, other}},
		"the order of parameters does not matter":   {[]string{`33;h="a";r="account/42"`}, []token.Token{one}},
		"unknown parameters are passed over":        {[]string{`33;r="account/42";signature=:AAA=:;h="a";y`}, []token.Token{one}},
		"the parameters of a signature":             {[]string{signedLine, `34;r="account/7";h="a"`}, []token.Token{one, other}},
		"of a parameter given twice the last holds": {[]string{`33;r="account/7";r="account/42";h="a"`}, []token.Token{one}},
		"a Display String is not only for accents":  {[]string{`33;r=%"account/42";h="a"`}, []token.Token{one}},
		"a Display String":                          {[]string{`1;r=%"konto/gr%c3%b6%c3%9fe";h="a"`}, []token.Token{tok("konto/größe", 1, "a")}},
		"quotes and backslashes":                    {[]string{`1;r="a\"b\\c";h="a"`}, []token.Token{tok(`a"b\c`, 1, "a")}},
		"a comma in a name":                         {[]string{`1;r="a,b";h="a"`}, []token.Token{tok("a,b", 1, "a")}},
		"fifteen digits":                            {[]string{`999999999999999;r="a";h="b"`}, []token.Token{tok("a", token.MaxNumber, "b")}},
		"a leading zero":                            {[]string{`033;r="account/42";h="a"`}, []token.Token{one}},
		"a space after semicolons":                  {[]string{`33; r="account/42";h="a"`}, []token.Token{one}},
		"a tab after a comma":                       {[]string{"33;r=\"account/42\";h=\"a\",\t34;r=\"account/7\";h=\"a\""}, []token.Token{one, other}},
		"spaces around the list":                    {[]string{`  33;r="account/42";h="a"  `}, []token.Token{one}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := httpguard.Parse(test.lines)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestParseBounds(t *testing.T) {
	t.Parallel()
	padded := func(n int) string {
		open := `1;r="a";h="b";y="`
		return open + strings.Repeat("x", n-len(open)-1) + `"`
	}
	_, err := httpguard.Parse([]string{padded(httpguard.MaxBytes)})
	require.NoError(t, err)
	_, err = httpguard.Parse([]string{padded(httpguard.MaxBytes + 1)})
	require.ErrorIs(t, err, token.ErrInvalid)

	toks := make([]token.Token, httpguard.MaxMembers)
	for i := range toks {
		toks[i] = tok(fmt.Sprintf("account/%d", i), 1, "a")
	}
	text, err := httpguard.Format(toks...)
	require.NoError(t, err)
	got, err := httpguard.Parse([]string{text})
	require.NoError(t, err)
	require.Equal(t, toks, got)
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		toks []token.Token
		want string
	}{
		"no token":      {nil, ""},
		"one token":     {[]token.Token{tok("account/42", 33, "a:1")}, `33;r="account/42";h="a:1"`},
		"two tokens":    {[]token.Token{tok("b", 2, "x"), tok("a", 1, "x")}, `2;r="b";h="x", 1;r="a";h="x"`},
		"names of any":  {[]token.Token{tok("größe", 1, `a"b\c`)}, `1;r=%"gr%c3%b6%c3%9fe";h="a\"b\\c"`},
		"fifteen nines": {[]token.Token{tok("a", token.MaxNumber, "b")}, `999999999999999;r="a";h="b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := httpguard.Format(test.toks...)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			back, err := httpguard.Parse([]string{got})
			require.NoError(t, err)
			require.Equal(t, test.toks, back)
		})
	}
}

func TestFormatRefuses(t *testing.T) {
	t.Parallel()
	many, wide := make([]token.Token, 65), make([]token.Token, 10)
	for i := range many {
		many[i] = tok(strconv.Itoa(i), 1, "a")
	}
	for i := range wide {
		wide[i] = tok(strings.Repeat("ö", 99)+strconv.Itoa(i), 1, strings.Repeat("ö", 100))
	}
	for name, toks := range map[string][]token.Token{
		"the zero token":               {{}},
		"no holder":                    {tok("a", 1, "")},
		"a number that is too great":   {tok("a", token.MaxNumber+1, "b")},
		"two of one resource":          {tok("a", 1, "b"), tok("a", 1, "b")},
		"more members than are read":   many,
		"more bytes than the limit":    wide,
		"a bad one after a good token": {tok("a", 1, "b"), {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := httpguard.Format(toks...)
			require.Empty(t, text)
			require.ErrorIs(t, err, token.ErrInvalid)
			require.True(t, errors.As(err, new(*httpguard.HeaderError)))
		})
	}
}

func TestSixteenDigitsAreNoInteger(t *testing.T) {
	t.Parallel()
	// hazard W9
	const naive = `%d;r="account/42";h="a"`
	micros := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMicro()

	// The naive issuer counts microseconds: a conforming parser rejects them.
	_, err := httpsfv.UnmarshalList([]string{fmt.Sprintf(naive, micros)})
	require.ErrorIs(t, err, httpsfv.ErrNumberOutOfRange)
	_, err = httpguard.Parse([]string{fmt.Sprintf(naive, micros)})
	require.ErrorIs(t, err, token.ErrInvalid)
	_, err = httpguard.Format(tok("account/42", micros, "a"))
	require.ErrorIs(t, err, token.ErrInvalid)

	text, err := httpguard.Format(tok("account/42", micros/10, "a"))
	require.NoError(t, err)
	got, err := httpguard.Parse([]string{text})
	require.NoError(t, err)
	require.Equal(t, []token.Token{tok("account/42", micros/10, "a")}, got)
}

// malformed are fields that must never be accepted, with the member that breaks a rule,
// and the rule.
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
	"a code without a key":              {[]string{`33;r="a";h="b";s=:AAAA:`}, 1, "must have the parameter k beside s"},
	"a key without a code":              {[]string{`33;r="a";h="b";k="c"`}, 1, "must have the parameter s beside k or x"},
	"an end without a code":             {[]string{`33;r="a";h="b";x=1`}, 1, "must have the parameter s beside k or x"},
	"a key that is no String":           {[]string{`33;r="a";h="b";k=c;s=:AAAA:`}, 1, "parameter k must be a String"},
	"a key that is no id":               {[]string{`33;r="a";h="b";k="c d";s=:AAAA:`}, 1, "parameter k must be a String"},
	"an end that is zero":               {[]string{`33;r="a";h="b";k="c";x=0;s=:AAAA:`}, 1, "parameter x must be an Integer"},
	"an end that is a String":           {[]string{`33;r="a";h="b";k="c";x="1";s=:AAAA:`}, 1, "parameter x must be an Integer"},
	"a code that is a String":           {[]string{`33;r="a";h="b";k="c";s="AAAA"`}, 1, "parameter s must be a Byte Sequence"},
	"a code that is not base64":         {[]string{`33;r="a";h="b";k="c";s=:A:`}, 0, "must be a List"},
	"two signed tokens of one resource": {[]string{signedLine, signedLine}, 2, "must be the only token of its resource"},
	"a bad signature after a good one":  {[]string{signedLine, `34;r="a";h="b";k="c"`}, 2, "must have the parameter s"},

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

func TestParseWrapsTheError(t *testing.T) {
	t.Parallel()
	_, err := httpguard.Parse([]string{`0;r="a";h="b"`})
	var invalid *token.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "number", invalid.Part)

	_, err = httpguard.Parse([]string{`1,`})
	require.ErrorIs(t, err, httpsfv.ErrInvalidListFormat)
}

func TestSignaturesAreSentAndReadBack(t *testing.T) {
	t.Parallel()
	endless := signedToken()
	endless.Token.Resource, endless.Until = "größe", 0
	plain := signature.Signed{Token: tok("account/7", 34, "a")}
	for name, test := range map[string]struct {
		all  []signature.Signed
		want string
	}{
		"none":                   {nil, ""},
		"one with an end":        {[]signature.Signed{signedToken()}, signedLine},
		"one without an end":     {[]signature.Signed{endless}, strings.NewReplacer(`"account/42"`, `%"gr%c3%b6%c3%9fe"`, ";x=1795169774", "").Replace(signedLine)},
		"a signed and a plain":   {[]signature.Signed{signedToken(), plain}, signedLine + `, 34;r="account/7";h="a"`},
		"a plain one, as Format": {[]signature.Signed{plain}, `34;r="account/7";h="a"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := httpguard.FormatSigned(test.all...)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			back, err := httpguard.ParseSigned([]string{got})
			require.NoError(t, err)
			require.Equal(t, test.all, back)
		})
	}
}

func TestACodeOfAnotherLengthIsABadSignature(t *testing.T) {
	t.Parallel()
	keyring, err := signature.New(signature.Key{ID: "2026-11", Secret: make([]byte, signature.MinSecret)})
	require.NoError(t, err)
	for name, code := range map[string]string{"none": "", "3 bytes": "AQID", "31 bytes": strings.Repeat("AQID", 10) + "AA==", "33 bytes": strings.Repeat("AQID", 11)} {
		all, err := httpguard.ParseSigned([]string{`33;r="account/42";h="a";k="2026-11";s=:` + code + `:`})
		require.NoError(t, err, name)
		require.Equal(t, []signature.Signed{{Token: tok("account/42", 33, "a"), Key: "2026-11"}}, all)
		require.ErrorIs(t, keyring.Verify(all[0]), token.ErrBadSignature)
	}
}

func TestFormatSignedRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*signature.Signed){
		"the zero token":           func(s *signature.Signed) { *s = signature.Signed{} },
		"a number that is too big": func(s *signature.Signed) { s.Token.Number = token.MaxNumber + 1 },
		"a code without a key":     func(s *signature.Signed) { s.Key = "" },
		"a key that is no id":      func(s *signature.Signed) { s.Key = `"` },
		"a negative end":           func(s *signature.Signed) { s.Until = -1 },
		"an end that is too late":  func(s *signature.Signed) { s.Until = token.MaxNumber + 1 },
		"two of one resource":      func(s *signature.Signed) { s.Token.Resource = "account/7" },
	} {
		s := signedToken()
		spoil(&s)
		text, err := httpguard.FormatSigned(signature.Signed{Token: tok("account/7", 34, "a")}, s)
		require.Empty(t, text, name)
		var header *httpguard.HeaderError
		require.ErrorAs(t, err, &header, name)
		require.Equal(t, 2, header.Member)
		require.ErrorIs(t, err, token.ErrInvalid)
	}
	_, err := httpguard.FormatSigned(make([]signature.Signed, httpguard.MaxMembers+1)...)
	require.ErrorIs(t, err, token.ErrInvalid)
}

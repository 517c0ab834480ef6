package httpguard_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// raw sends the bytes unchanged, and returns the status, or reset if the server closes
// the connection instead.
func (s site) raw(request string) int {
	s.t.Helper()
	conn := s.dial()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		require.NoError(s.t, hungUp(err))
		return reset
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// hostileBank has account/42, the target of the hostile requests, and account/7.
func hostileBank() (*bank, http.Handler) {
	b := &bank{}
	m := httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}, InFlight: new(httpguard.InFlight)}
	return b, withRoot(b.mux(m))
}

// stillAnswers sends a valid request. It must be the only one that is applied, unless
// another is expected.
func (s site) stillAnswers(b *bank, applied bool) {
	s.t.Helper()
	require.Equal(s.t, http.StatusNoContent, s.do("PUT", "/accounts/7", line("account/7", 33, "good")).status)
	want := []string{"PUT account/7#33"}
	written := b.written()
	if applied {
		require.Len(s.t, written, 2)
		written = written[1:]
	}
	require.Equal(s.t, want, written)
}

const good = `33;r="account/42";h="a"`

// hostile are the lines of a field in a PUT of account/42, with the statuses over
// HTTP/1.1 and HTTP/2. If the status is 204 the mark of account/42 is raised to the
// line's token, and to nothing else. The server itself rejects bytes that no field may
// contain (RFC 9110 §5.5), before the middleware runs.
var hostile = []struct {
	name     string
	lines    []string
	one, two int
}{
	{"nothing hostile", []string{good}, 204, 204},
	{"no line", nil, 428, 428},
	{"an empty line", []string{""}, 428, 428},
	{"a line of spaces", []string{"   "}, 428, 428},
	{"a line of tabs", []string{"\t\t"}, 428, 400},
	{"spaces around it", []string{"  " + good + "  "}, 204, 204},
	{"tabs around it, which HTTP/1.1 takes off", []string{"\t" + good + "\t"}, 204, 400},
	{"a tab inside it", []string{`33;` + "\t" + `r="account/42";h="a"`}, 400, 400},

	{"the same line twice", []string{good, good}, 400, 400},
	{"the same member twice", []string{good + ", " + good}, 400, 400},
	{"two holders", []string{good + `, 33;r="account/42";h="b"`}, 400, 400},
	{"a line beside an empty one", []string{good, ""}, 400, 400},
	{"a line beside another field's value", []string{good, "close"}, 400, 400},
	{"a member that is torn in two lines", []string{`33;r="account/42"`, `;h="a"`}, 400, 400},
	{"a String that is torn in two lines has a comma", []string{`33;r="account/`, `42";h="a"`}, 428, 428},

	{"1 MiB", []string{good + `;z="` + strings.Repeat("z", 1<<20-64) + `"`}, 400, 400},
	{"4 MiB", []string{good + `;z="` + strings.Repeat("z", 4<<20) + `"`}, 431, reset},
	{"64 KiB", []string{good + `;z="` + strings.Repeat("z", 64<<10) + `"`}, 400, 400},
	{"8 KiB and one byte", []string{padded(8<<10 + 1)}, 400, 400},
	{"8 KiB", []string{padded(8 << 10)}, 204, 204},
	{"64 KiB of digits", []string{strings.Repeat("3", 64<<10)}, 400, 400},
	{"64 KiB of brackets", []string{strings.Repeat("(", 64<<10)}, 400, 400},
	{"8 KiB of brackets", []string{strings.Repeat("(", 8000)}, 400, 400},
	{"8 KiB of commas", []string{strings.Repeat(",", 8000)}, 400, 400},
	{"8 KiB of semicolons", []string{"33" + strings.Repeat(";", 8000)}, 400, 400},
	{"8 KiB of parameters", []string{good + strings.Repeat(";z", 4000)}, 204, 204},
	{"64 members", []string{members(64)}, 204, 204},
	{"65 members", []string{members(65)}, 400, 400},
	{"1,000 members", []string{members(1000)}, 400, 400},
	{"64 lines", strings.Split(members(64), ", "), 204, 204},
	{"65 lines", strings.Split(members(65), ", "), 400, 400},
	{"1,000 lines", strings.Split(members(1000), ", "), 400, 400},
	{"5,000 empty lines", make([]string, 5000), 400, 400},

	{"a negative number", []string{`-33;r="account/42";h="a"`}, 400, 400},
	{"minus and nothing", []string{`-;r="account/42";h="a"`}, 400, 400},
	{"minus zero", []string{`-0;r="account/42";h="a"`}, 400, 400},
	{"zero", []string{`0;r="account/42";h="a"`}, 400, 400},
	{"a plus sign", []string{`+33;r="account/42";h="a"`}, 400, 400},
	{"a float", []string{`33.0;r="account/42";h="a"`}, 400, 400},
	{"an exponent", []string{`1e3;r="account/42";h="a"`}, 400, 400},
	{"hexadecimal", []string{`0x10;r="account/42";h="a"`}, 400, 400},
	{"octal", []string{`0o17;r="account/42";h="a"`}, 400, 400},
	{"underscores", []string{`1_0;r="account/42";h="a"`}, 400, 400},
	{"an infinity", []string{`inf;r="account/42";h="a"`}, 400, 400},
	{"fifteen digits", []string{`999999999999999;r="account/42";h="a"`}, 204, 204},
	{"sixteen digits", []string{`1000000000000000;r="account/42";h="a"`}, 400, 400},
	{"2^63 - 1", []string{`9223372036854775807;r="account/42";h="a"`}, 400, 400},
	{"2^63", []string{`9223372036854775808;r="account/42";h="a"`}, 400, 400},
	{"2^64", []string{`18446744073709551616;r="account/42";h="a"`}, 400, 400},
	{"2^64 + 33", []string{`18446744073709551649;r="account/42";h="a"`}, 400, 400},
	{"leading zeros", []string{`000000000000033;r="account/42";h="a"`}, 204, 204},
	{"sixteen digits with leading zeros", []string{`0000000000000033;r="account/42";h="a"`}, 400, 400},
	{"Arabic digits", []string{"٣٣" + `;r="account/42";h="a"`}, 400, 400},
	{"full-width digits", []string{"３３" + `;r="account/42";h="a"`}, 400, 400},
	{"superscript digits", []string{"³³" + `;r="account/42";h="a"`}, 400, 400},

	{"a NUL", []string{"33;r=\"account/42\x00\";h=\"a\""}, 400, reset},
	{"a NUL after it", []string{good + "\x00"}, 400, reset},
	{"a CR", []string{"33;r=\"account/42\r\";h=\"a\""}, 400, reset},
	{"a CR after it", []string{good + "\r"}, 400, reset},
	{"an escape", []string{"33;r=\"account/42\x1b[2J\";h=\"a\""}, 400, reset},
	{"a DEL", []string{"33;r=\"account/42\";h=\"a\x7f\""}, 400, reset},
	{"a line feed inside a String", []string{"33;r=\"account/\n42\";h=\"a\""}, 400, reset},
	{"a field after a line feed", []string{"33;r=\"account/7\";h=\"a\"\nFencing-Token: " + good}, 204, reset},
	{"a folded line", []string{"33;r=\"account/42\";\r\n h=\"a\""}, 204, reset},
	{"a line folded inside a String", []string{"33;r=\"account/\r\n 42\";h=\"a\""}, 428, reset},

	{"UTF-8 in a String", []string{`33;r="größe";h="a"`}, 400, 400},
	{"Latin-1 in a String", []string{"33;r=\"gr\xf6\xdfe\";h=\"a\""}, 400, 400},
	{"UTF-8 in a Display String", []string{`33;r=%"größe";h="a"`}, 400, 400},
	{"half a letter in a Display String", []string{`33;r=%"account/42%c3";h="a"`}, 400, 400},
	{"a letter in too many bytes", []string{`33;r=%"account/42%c0%af";h="a"`}, 400, 400},
	{"a surrogate", []string{`33;r=%"account/42%ed%a0%80";h="a"`}, 400, 400},
	{"capitals in a Display String", []string{`33;r=%"account%2F42";h="a"`}, 400, 400},
	{"an escaped slash is a slash", []string{`33;r=%"account%2f42";h="a"`}, 204, 204},
	{"a percent sign in a String is one", []string{`33;r="account%2f42";h="a"`}, 428, 428},
	{"an escaped quote", []string{`33;r="account/42\"";h="a"`}, 428, 428},
	{"an escaped letter", []string{`33;r="account/4\2";h="a"`}, 400, 400},
	{"an escape that escapes the end", []string{`33;r="account/42\";h="a"`}, 400, 400},
	{"a String within a String", []string{`33;r="x\";r=\"account/42";h="a"`}, 428, 428},

	{"unknown parameters", []string{good + `;zz="r";y=1.5;x1=?0;*a=:YQ==:`}, 204, 204},
	{"an unknown parameter that is no value", []string{good + `;zz=`}, 400, 400},
	{"two resources in one member", []string{`33;r="account/7";r="account/42";h="a"`}, 204, 204},
	{"two resources in one member, the other way", []string{`33;r="account/42";r="account/7";h="a"`}, 428, 428},
	{"parameters in capitals", []string{`33;R="account/42";H="a"`}, 400, 400},
	{"long names of parameters", []string{`33;resource="account/42";holder="a"`}, 400, 400},
	{"an inner list", []string{`(33);r="account/42";h="a"`}, 400, 400},
	{"an empty inner list", []string{`();r="account/42";h="a"`}, 400, 400},
	{"bytes for a number", []string{`:MzM=:;r="account/42";h="a"`}, 400, 400},
	{"a boolean for a number", []string{`?1;r="account/42";h="a"`}, 400, 400},
	{"a date for a number", []string{`@33;r="account/42";h="a"`}, 400, 400},
	{"a String for a number", []string{`"33";r="account/42";h="a"`}, 400, 400},
	{"a Token for a name", []string{`33;r=account/42;h="a"`}, 400, 400},
	{"bytes for a name", []string{`33;r=:YWNjb3VudC80Mg==:;h="a"`}, 400, 400},
	{"an empty resource", []string{`33;r="";h="a"`}, 400, 400},
	{"an empty holder", []string{`33;r="account/42";h=""`}, 400, 400},
	{"a holder that is a space", []string{`33;r="account/42";h=" "`}, 204, 204},

	{"a resource with a line feed", []string{`33;r=%"account/42%0a";h="a"`}, 400, 400},
	{"a resource with a NUL", []string{`33;r=%"account/42%00";h="a"`}, 400, 400},
	{"200 bytes", []string{`33;r="account/42";h="` + strings.Repeat("h", 200) + `"`}, 204, 204},
	{"201 bytes", []string{`33;r="account/42";h="` + strings.Repeat("h", 201) + `"`}, 400, 400},
	{"a resource of 201 bytes", []string{good + `, 33;r="` + strings.Repeat("r", 201) + `";h="a"`}, 400, 400},
	{"two names that conflict", []string{`33;r="account/7";h="a"`}, 428, 428},
	{"a name that looks the same", []string{`33;r=%"%d0%b0ccount/42";h="a"`}, 428, 428},
	{"a name with a full-width digit", []string{`33;r=%"account/4%ef%bc%92";h="a"`}, 428, 428},
	{"a name with a space after it", []string{`33;r="account/42 ";h="a"`}, 428, 428},
	{"a name with an invisible letter", []string{`33;r=%"account/42%e2%80%8b";h="a"`}, 428, 428},
	{"a name in capitals", []string{`33;r="ACCOUNT/42";h="a"`}, 428, 428},
	{"a name with dots", []string{`33;r="account/7/../42";h="a"`}, 428, 428},
	{"a name that looks the same, beside the right one", []string{`99;r=%"%d0%b0ccount/42";h="a", ` + good}, 204, 204},

	{"a trailing comma", []string{good + ","}, 400, 400},
	{"a trailing comma and space", []string{good + ", "}, 400, 400},
	{"a leading comma", []string{"," + good}, 400, 400},
	{"two commas", []string{good + `,,33;r="b";h="a"`}, 400, 400},
	{"only commas", []string{",,,"}, 400, 400},
	{"only a comma", []string{","}, 400, 400},
	{"only a semicolon", []string{";"}, 400, 400},
	{"only a number", []string{"33"}, 400, 400},
	{"a trailing semicolon", []string{good + ";"}, 400, 400},
	{"words after it", []string{good + " and more"}, 400, 400},
	{"a comment", []string{good + " (a comment)"}, 400, 400},
	{"a dictionary", []string{`t=` + good}, 400, 400},
	{"JSON", []string{`{"r":"account/42","n":33,"h":"a"}`}, 400, 400},
	{"SQL", []string{`33;r="account/42' OR '1'='1";h="a"`}, 428, 428},
	{"half a signature", []string{good + `;k="2026-11"`}, 400, 400},
	{"a signature that is a String", []string{good + `;k="2026-11";s="AAAA"`}, 400, 400},
	{"a signature that is no base64", []string{good + `;k="2026-11";s=:A$:`}, 400, 400},
	{"a signature that is not verified", []string{good + `;k="2026-11";s=:AAAA:`}, 204, 204},
}

func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, test := range hostile {
		require.False(t, names[test.name], test.name)
		names[test.name] = true
		t.Run(test.name+", over HTTP/1.1", func(t *testing.T) {
			t.Parallel()
			b, h := hostileBank()
			s := serve(t, h, false)
			request := "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\n"
			for _, line := range test.lines {
				request += "Fencing-Token: " + line + "\r\n"
			}
			require.Equal(t, test.one, s.raw(request+"\r\n"))
			s.stillAnswers(b, test.one == http.StatusNoContent)
		})
		t.Run(test.name+", over HTTP/2", func(t *testing.T) {
			t.Parallel()
			b, h := hostileBank()
			s := serve(t, h, true)
			var fields [][2]string
			for _, line := range test.lines {
				fields = append(fields, [2]string{"fencing-token", line})
			}
			require.Equal(t, test.two, s.frames("/accounts/42", fields, nil))
			s.stillAnswers(b, test.two == http.StatusNoContent)
		})
	}
}

func TestHostileMessages(t *testing.T) {
	t.Parallel()
	// A request inside the body of another one, for a parser that uses the second of
	// the two length fields.
	smuggled := "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: " + good + "\r\nContent-Length: 0\r\n\r\n"
	for name, test := range map[string]struct {
		header, body string
		status       int
	}{
		"small letters":               {"fencing-token: " + good + "\r\n", "", 204},
		"capitals":                    {"FENCING-TOKEN: " + good + "\r\n", "", 204},
		"odd letters":                 {"fEnCiNg-tOkEn: " + good + "\r\n", "", 204},
		"an underscore":               {"Fencing_Token: " + good + "\r\n", "", 428},
		"an underscore beside it":     {"Fencing_Token: " + good + "\r\nFencing-Token: " + good + "\r\n", "", 204},
		"no hyphen":                   {"FencingToken: " + good + "\r\n", "", 428},
		"a prefix":                    {"X-Fencing-Token: " + good + "\r\n", "", 428},
		"a letter that looks alike":   {"Fencing-T\u043eken: " + good + "\r\n", "", 400},
		"a space before the colon":    {"Fencing-Token : " + good + "\r\n", "", 400},
		"a space before the name":     {" Fencing-Token: " + good + "\r\n", "", 400},
		"no colon":                    {"Fencing-Token " + good + "\r\n", "", 400},
		"two cases, two lines":        {"fencing-token: " + good + "\r\nFENCING-TOKEN: " + good + "\r\n", "", 400},
		"named by Connection":         {"Connection: close, Fencing-Token\r\nFencing-Token: " + good + "\r\n", "", 204},
		"in a Cookie":                 {"Cookie: Fencing-Token=" + good + "\r\n", "", 428},
		"lines that end in line feed": {"Fencing-Token: " + good + "\n", "", 204},
		"in a trailer": {"Transfer-Encoding: chunked\r\nTrailer: Fencing-Token\r\n",
			"0\r\nFencing-Token: " + good + "\r\n\r\n", 428},
		"in a trailer that is not announced": {"Transfer-Encoding: chunked\r\n", "0\r\nFencing-Token: " + good + "\r\n\r\n", 428},
		"two lengths":                        {"Content-Length: 0\r\nContent-Length: " + fmt.Sprint(len(smuggled)) + "\r\n", smuggled, 400},
		"a length with a sign":               {"Content-Length: +0\r\n", smuggled, 400},
		"an invalid coding":                  {"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n", smuggled, 501},
		"a coding in a trick's spelling":     {"Transfer-Encoding : chunked\r\nContent-Length: 0\r\n", smuggled, 400},
		"two codings":                        {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n" + smuggled, 501},
		"a coding folded":                    {"Transfer-Encoding:\r\n x\r\nContent-Length: 0\r\n", smuggled, 501},
		"no host":                            {"Host: y\r\n", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, h := hostileBank()
			s := serve(t, h, false)
			require.Equal(t, test.status, s.raw("PUT /accounts/42 HTTP/1.1\r\nHost: x\r\n"+test.header+"\r\n"+test.body))
			s.stillAnswers(b, test.status == http.StatusNoContent)
		})
	}
}

func TestHostileFrames(t *testing.T) {
	t.Parallel()
	field := [2]string{"fencing-token", good}
	for name, test := range map[string]struct {
		fields, trailers [][2]string
		status           int
	}{
		"a name in capitals":         {[][2]string{{"Fencing-Token", good}}, nil, reset},
		"a name with an underscore":  {[][2]string{{"fencing_token", good}}, nil, 428},
		"a name with a space":        {[][2]string{{"fencing-token ", good}}, nil, reset},
		"a name with a line feed":    {[][2]string{{"x: y\r\nfencing-token", good}}, nil, reset},
		"a pseudo field":             {[][2]string{{":fencing-token", good}}, nil, reset},
		"a connection's own field":   {[][2]string{{"connection", "fencing-token"}, field}, nil, 400},
		"a coding, which it has not": {[][2]string{{"transfer-encoding", "chunked"}, field}, nil, 400},
		"in a trailer":               {[][2]string{{"trailer", "fencing-token"}}, [][2]string{field}, 428},
		"in a trailer not announced": {nil, [][2]string{field}, 428},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, h := hostileBank()
			s := serve(t, h, true)
			require.Equal(t, test.status, s.frames("/accounts/42", test.fields, test.trailers))
			s.stillAnswers(b, test.status == http.StatusNoContent)
		})
	}
}

// A message with two contradictory lengths hides another one from a parser that uses the
// other length. The hidden message is checked by its own fields, not by those of the
// message around it.
func TestNothingIsSmuggled(t *testing.T) {
	t.Parallel()
	b, h := hostileBank()
	s := serve(t, h, false)
	hidden := "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	conn := s.dial()
	_, err := fmt.Fprintf(conn, "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: %s\r\nContent-Length: %d\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", good, len("0\r\n\r\n"+hidden), hidden)
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, hungUp(err))
	require.Equal(t, 1, strings.Count(string(all), " 204 "), string(all))
	require.Equal(t, []string{"PUT account/42#33"}, b.written())
	s.stillAnswers(b, true)
}

// padded returns a valid field of n bytes.
func padded(n int) string {
	open := good + `;z="`
	return open + strings.Repeat("z", n-len(open)-1) + `"`
}

// members returns n tokens, the first one of account/42.
func members(n int) string {
	all := []string{good}
	for i := 1; i < n; i++ {
		all = append(all, fmt.Sprintf(`1;r="other/%d";h="a"`, i))
	}
	return strings.Join(all, ", ")
}

package httpguard_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

const good = `33;r="account/42";h="a"`

// hostile are the lines of a field in a PUT of account/42, with the statuses over
// HTTP/1.1 and HTTP/2. The parse vectors are sent like them. If the status is 204 the mark
// of account/42 is raised to the line's token, and to nothing else. The server itself
// rejects bytes that no field may contain (RFC 9110 §5.5), before the middleware runs.
var hostile = []struct {
	name     string
	lines    []string
	one, two int
}{
	{"a line of spaces", []string{"   "}, 428, 428},
	{"a line of tabs", []string{"\t\t"}, 428, 400},
	{"tabs around it, which HTTP/1.1 takes off", []string{"\t" + good + "\t"}, 204, 400},
	{"a line beside another field's value", []string{good, "close"}, 400, 400},
	{"a String that is torn in two lines has a comma", []string{`33;r="account/`, `42";h="a"`}, 428, 428},
	{"1 MiB", []string{good + `;z="` + strings.Repeat("z", 1<<20-64) + `"`}, 400, 400},
	{"4 MiB", []string{good + `;z="` + strings.Repeat("z", 4<<20) + `"`}, 431, reset},
	{"8 KiB and one byte", []string{padded(8<<10 + 1)}, 400, 400},
	{"8 KiB", []string{padded(8 << 10)}, 204, 204},
	{"8 KiB of brackets", []string{strings.Repeat("(", 8000)}, 400, 400},
	{"8 KiB of commas", []string{strings.Repeat(",", 8000)}, 400, 400},
	{"8 KiB of semicolons", []string{"33" + strings.Repeat(";", 8000)}, 400, 400},
	{"8 KiB of parameters", []string{good + strings.Repeat(";z", 4000)}, 204, 204},
	{"64 members", []string{members(64)}, 204, 204},
	{"1,000 members", []string{members(1000)}, 400, 400},
	{"64 lines", strings.Split(members(64), ", "), 204, 204},
	{"65 lines", strings.Split(members(65), ", "), 400, 400},
	{"5,000 empty lines", make([]string, 5000), 400, 400},
	{"2^64 + 33", []string{`18446744073709551649;r="account/42";h="a"`}, 400, 400},
	{"Arabic digits", []string{"٣٣" + `;r="account/42";h="a"`}, 400, 400},
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
	{"Latin-1 in a String", []string{"33;r=\"gr\xf6\xdfe\";h=\"a\""}, 400, 400},
	{"UTF-8 in a Display String", []string{`33;r=%"größe";h="a"`}, 400, 400},
	{"a letter in too many bytes", []string{`33;r=%"account/42%c0%af";h="a"`}, 400, 400},
	{"an escaped slash is a slash", []string{`33;r=%"account%2f42";h="a"`}, 204, 204},
	{"a percent sign in a String is one", []string{`33;r="account%2f42";h="a"`}, 428, 428},
	{"an escaped quote", []string{`33;r="account/42\"";h="a"`}, 428, 428},
	{"an escape that escapes the end", []string{`33;r="account/42\";h="a"`}, 400, 400},
	{"a String within a String", []string{`33;r="x\";r=\"account/42";h="a"`}, 428, 428},
	{"an unknown parameter that is no value", []string{good + `;zz=`}, 400, 400},
	{"two resources in one member, the other way", []string{`33;r="account/42";r="account/7";h="a"`}, 428, 428},
	{"an empty inner list", []string{`();r="account/42";h="a"`}, 400, 400},
	{"a holder that is a space", []string{`33;r="account/42";h=" "`}, 204, 204},
	{"200 bytes", []string{`33;r="account/42";h="` + strings.Repeat("h", 200) + `"`}, 204, 204},
	{"two names that conflict", []string{`33;r="account/7";h="a"`}, 428, 428},
	{"a name with a full-width digit", []string{`33;r=%"account/4%ef%bc%92";h="a"`}, 428, 428},
	{"a name with a space after it", []string{`33;r="account/42 ";h="a"`}, 428, 428},
	{"a name with an invisible letter", []string{`33;r=%"account/42%e2%80%8b";h="a"`}, 428, 428},
	{"a name with dots", []string{`33;r="account/7/../42";h="a"`}, 428, 428},
	{"a name that looks the same, beside the right one", []string{`99;r=%"%d0%b0ccount/42";h="a", ` + good}, 204, 204},
	{"a trailing comma and space", []string{good + ", "}, 400, 400},
	{"a trailing semicolon", []string{good + ";"}, 400, 400},
	{"words after it", []string{good + " and more"}, 400, 400},
	{"a comment", []string{good + " (a comment)"}, 400, 400},
	{"SQL", []string{`33;r="account/42' OR '1'='1";h="a"`}, 428, 428},
	{"a signature that is no base64", []string{good + `;k="2026-11";s=:A$:`}, 400, 400},
	{"a signature that is not verified", []string{good + `;k="2026-11";s=:AAAA:`}, 204, 204},
	{"8 KiB of parameters and no resource", []string{`33` + strings.Repeat(";a", 4000)}, 400, 400},
	{"a signed token twice", []string{signedLine, signedLine}, 400, 400},
	{"half a signature after a whole one", []string{strings.Replace(signedLine, "account/42", "a", 1), good + `;k="c"`}, 400, 400},
	{"a line folded after a comma", []string{good + ",\r\n " + `1;r="b";h="a"`}, 204, reset},
	{"a line folded inside a member", []string{"33\r\n" + ` ;r="account/42";h="a"`}, 400, reset},
}

// message is a PUT of account/42: the lines of its header over HTTP/1.1, with what follows
// the header, or the fields and trailers of its frames over HTTP/2. A rule must be in the
// response, over HTTP/1.1.
type message struct {
	header, body     string
	fields, trailers [][2]string
	status           int
	rule             string
}

// messages returns all hostile messages by their names.
func messages(t *testing.T) map[string]message {
	t.Helper()
	// A request inside the body of another one, for a parser that uses the second of
	// the two length fields.
	smuggled := "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: " + good + "\r\nContent-Length: 0\r\n\r\n"
	field := [2]string{"fencing-token", good}
	all := map[string]message{
		"small letters":                      {header: "fencing-token: " + good + "\r\n", status: 204},
		"capitals":                           {header: "FENCING-TOKEN: " + good + "\r\n", status: 204},
		"odd letters":                        {header: "fEnCiNg-tOkEn: " + good + "\r\n", status: 204},
		"an underscore":                      {header: "Fencing_Token: " + good + "\r\n", status: 428},
		"an underscore beside it":            {header: "Fencing_Token: " + good + "\r\nFencing-Token: " + good + "\r\n", status: 204},
		"no hyphen":                          {header: "FencingToken: " + good + "\r\n", status: 428},
		"a prefix":                           {header: "X-Fencing-Token: " + good + "\r\n", status: 428},
		"a letter that looks alike":          {header: "Fencing-T\u043eken: " + good + "\r\n", status: 400},
		"a space before the colon":           {header: "Fencing-Token : " + good + "\r\n", status: 400},
		"a space before the name":            {header: " Fencing-Token: " + good + "\r\n", status: 400},
		"no colon":                           {header: "Fencing-Token " + good + "\r\n", status: 400},
		"two cases, two lines":               {header: "fencing-token: " + good + "\r\nFENCING-TOKEN: " + good + "\r\n", status: 400},
		"named by Connection":                {header: "Connection: close, Fencing-Token\r\nFencing-Token: " + good + "\r\n", status: 204},
		"in a Cookie":                        {header: "Cookie: Fencing-Token=" + good + "\r\n", status: 428},
		"lines that end in line feed":        {header: "Fencing-Token: " + good + "\n", status: 204},
		"in a trailer":                       {header: "Transfer-Encoding: chunked\r\nTrailer: Fencing-Token\r\n", body: "0\r\nFencing-Token: " + good + "\r\n\r\n", status: 428},
		"in a trailer that is not announced": {header: "Transfer-Encoding: chunked\r\n", body: "0\r\nFencing-Token: " + good + "\r\n\r\n", status: 428},
		"two lengths":                        {header: "Content-Length: 0\r\nContent-Length: " + fmt.Sprint(len(smuggled)) + "\r\n", body: smuggled, status: 400},
		"a length with a sign":               {header: "Content-Length: +0\r\n", body: smuggled, status: 400},
		"an invalid coding":                  {header: "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n", body: smuggled, status: 501},
		"a coding in a trick's spelling":     {header: "Transfer-Encoding : chunked\r\nContent-Length: 0\r\n", body: smuggled, status: 400},
		"two codings":                        {header: "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", body: "0\r\n\r\n" + smuggled, status: 501},
		"a coding folded":                    {header: "Transfer-Encoding:\r\n x\r\nContent-Length: 0\r\n", body: smuggled, status: 501},
		"no host":                            {header: "Host: y\r\n", status: 400},
		"HTTP/2: a name in capitals":         {fields: [][2]string{{"Fencing-Token", good}}, status: reset},
		"HTTP/2: a name with an underscore":  {fields: [][2]string{{"fencing_token", good}}, status: 428},
		"HTTP/2: a name with a space":        {fields: [][2]string{{"fencing-token ", good}}, status: reset},
		"HTTP/2: a name with a line feed":    {fields: [][2]string{{"x: y\r\nfencing-token", good}}, status: reset},
		"HTTP/2: a pseudo field":             {fields: [][2]string{{":fencing-token", good}}, status: reset},
		"HTTP/2: a connection's own field":   {fields: [][2]string{{"connection", "fencing-token"}, field}, status: 400},
		"HTTP/2: a coding, which it has not": {fields: [][2]string{{"transfer-encoding", "chunked"}, field}, status: 400},
		"HTTP/2: in a trailer":               {fields: [][2]string{{"trailer", "fencing-token"}}, trailers: [][2]string{field}, status: 428},
		"HTTP/2: in a trailer not announced": {fields: [][2]string{}, trailers: [][2]string{field}, status: 428},
	}
	add := func(name string, lines []string, one, two int, rule string) {
		first, second := message{status: one, rule: rule}, message{fields: [][2]string{}, status: two}
		for _, line := range lines {
			first.header += "Fencing-Token: " + line + "\r\n"
			second.fields = append(second.fields, [2]string{"fencing-token", line})
		}
		require.NotContains(t, all, name+", over HTTP/1.1")
		all[name+", over HTTP/1.1"], all[name+", over HTTP/2"] = first, second
	}
	limits := map[string]string{
		"8 KiB and one byte": "must be at most 8192 bytes", "5,000 empty lines": "must be at most 8192 bytes",
		"65 lines": "must have at most 64 members", "1 MiB": "must be at most 8192 bytes",
	}
	for _, h := range hostile {
		add(h.name, h.lines, h.one, h.two, limits[h.name])
	}
	for _, v := range readVectors(t).Parse {
		status := http.StatusPreconditionRequired
		switch {
		case v.Malformed != "":
			status = http.StatusBadRequest
		case slices.ContainsFunc(v.Tokens, func(tok tokenVector) bool { return tok.Resource == "account/42" }):
			status = http.StatusNoContent
		}
		add("vector: "+v.Name, v.Field, status, status, v.Malformed)
	}
	return all
}

func TestHostileMessages(t *testing.T) {
	t.Parallel()
	for name, m := range messages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bank{}
			s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}}), m.fields != nil)
			var got reply
			if m.fields != nil {
				got.status = s.frames("/accounts/42", m.fields, m.trailers)
			} else {
				got = s.raw("PUT /accounts/42 HTTP/1.1\r\nHost: x\r\n" + m.header + "\r\n" + m.body)
			}
			require.Equal(t, m.status, got.status)
			if m.rule != "" && m.fields == nil {
				require.Equal(t, httpguard.ProblemMalformed, got.problem(t)["type"])
				require.Contains(t, got.problem(t)["detail"], m.rule)
			}
			s.stillAnswers(b, m.status == http.StatusNoContent)
		})
	}
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

// A message with two contradictory lengths hides another one from a parser that uses the
// other length. The hidden message is checked by its own fields, not by those of the
// message around it.
func TestNothingIsSmuggled(t *testing.T) {
	t.Parallel()
	b := &bank{}
	s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}}), false)
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

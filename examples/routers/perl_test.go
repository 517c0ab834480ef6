package routers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/routers"
)

// HTTP::Tiny comes with Perl. It reuses its connection, sends a body of unknown length in
// chunks, and a field of several lines as several lines.
func TestPerl(t *testing.T) {
	t.Parallel()
	a := open(t)
	s, sent := listen(t, routers.Chi(a, guarded(a.Fence)))
	out := output(t, program(t, "perl", "testdata/put.pl", s.URL+"/accounts/42",
		"",
		line("account/42", 33),
		line("account/7", 1)+"|"+line("account/42", 34),
		line("account/42", 33),
		line("account/42", 34)+"|"+line("account/42", 33),
	))
	require.Equal(t, []string{
		"428 ProblemMissing", "204 -", "204 -", "412 ProblemStale", "400 ProblemMalformed",
	}, strings.Split(strings.TrimSpace(out), "\n"))
	require.Equal(t, 700, balance(t, a))
	require.Contains(t, strings.ToLower(sent.String()), "transfer-encoding: chunked")
}

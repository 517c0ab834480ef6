package routers_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/routers"
)

// story is a sequence of requests to one service.
var story = []struct {
	name, path, body string
	lines            []string
	status           int
	kind             string
	balance          int
}{
	{"without a token", "/accounts/42", "1", nil, 428, "ProblemMissing", opening},
	{"with the token of another account", "/accounts/42", "1", []string{line("account/43", 33)}, 428, "ProblemMissing", opening},
	{"with a token", "/accounts/42", "100", []string{line("account/42", 33)}, 204, "", 100},
	{"with it again", "/accounts/42", "110", []string{line("account/42", 33)}, 204, "", 110},
	{"with tokens of two accounts", "/accounts/42", "120", []string{line("account/7", 1) + ", " + line("account/42", 33)}, 204, "", 120},
	{"with tokens of two accounts in two lines", "/accounts/42", "130", []string{line("account/7", 1), line("account/42", 33)}, 204, "", 130},
	{"with two tokens of one account", "/accounts/42", "1", []string{line("account/42", 33), line("account/42", 34)}, 400, "ProblemMalformed", 130},
	{"with half a token", "/accounts/42", "1", []string{"33;r="}, 400, "ProblemMalformed", 130},
	{"with a newer token", "/accounts/42", "140", []string{line("account/42", 34)}, 204, "", 140},
	{"with the older token", "/accounts/42", "1", []string{line("account/42", 33)}, 412, "ProblemStale", 140},
	{"with a body that is no number", "/accounts/42", "all", []string{line("account/42", 34)}, 422, "", 140},
	{"with another name for the same account", "/accounts/042", "1", []string{line("account/042", 35)}, 428, "ProblemMissing", 140},
	{"that the router does not know", "/accounts", "1", []string{line("account/42", 35)}, 404, "", 140},
}

func TestTheService(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router, two bool) {
		a := open(t)
		s := serve(t, r.service(a, guarded(a.Fence)), two)
		for _, is := range story {
			got := put(t, s, is.path, is.body, is.lines...)
			require.Equal(t, is.status, got.status, "%s: %s", is.name, got.body)
			require.Equal(t, is.kind, got.kind, is.name)
			require.Equal(t, is.balance, balance(t, a), is.name)
		}
	})
}

// Without a store the guard refuses nothing early, and the write itself is refused.
func TestTheServiceWithoutAStore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router, two bool) {
		a := open(t)
		s := serve(t, r.service(a, guarded(nil)), two)
		require.Equal(t, http.StatusNoContent, put(t, s, "/accounts/42", "100", line("account/42", 34)).status)
		require.Equal(t, "ProblemStale", put(t, s, "/accounts/42", "1", line("account/42", 33)).kind)
		require.Equal(t, 100, balance(t, a))
	})
}

func TestTheGuardOfTheExampleIsReadyForUse(t *testing.T) {
	t.Parallel()
	require.NotNil(t, routers.Guarded(nil).Resources)
	require.Nil(t, routers.Guarded(nil).InFlight, "all guards of a process share one")
}

// Routers treat escaped paths differently: chi and echo do not unescape them. Whatever
// the path value is, the token must be for the account that is written.
func TestAnEscapedPathIsNoOtherAccount(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router, two bool) {
		a := open(t)
		s := serve(t, r.service(a, guarded(a.Fence)), two)
		unescapes := r.name == "net/http" || r.name == "gin"
		for resource, want := range map[string]int{
			"account/42":     map[bool]int{true: 204, false: 428}[unescapes],
			"account/%34%32": map[bool]int{true: 428, false: 422}[unescapes],
		} {
			got := put(t, s, "/accounts/%34%32", "7", line(resource, 33))
			require.Equal(t, want, got.status, "%s %s", resource, got.body)
		}
		require.Equal(t, map[bool]int{true: 7, false: opening}[unescapes], balance(t, a))
	})
}

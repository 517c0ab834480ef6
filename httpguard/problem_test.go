package httpguard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestTheMarkIsNeverTold(t *testing.T) {
	t.Parallel()
	// hazard W3
	const number, holder = 179516977481431, "billing:7:1:c2f1"
	var marks guard.Memory
	require.NoError(t, marks.Admit(t.Context(), tok("account/42", number, holder)))

	// The naive server helps: it tells the zombie what it would have liked to
	// see. The zombie copies it, and is in.
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		toks, _ := httpguard.Parse(r.Header[httpguard.Header])
		if marks.Admit(r.Context(), toks[0]) != nil {
			w.WriteHeader(http.StatusPreconditionFailed)
			_ = json.NewEncoder(w).Encode(marks.Mark("account/42"))
		}
	})
	helped := serve(t, naive, false).do("PUT", "/", line("account/42", 1, "zombie"))
	var told guard.Mark
	require.NoError(t, json.Unmarshal([]byte(helped.body), &told))
	require.NoError(t, marks.Admit(t.Context(), tok("account/42", told.Number, told.Holder)), "the zombie is in")

	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: &marks}), false)
	stale := s.do("PUT", "/accounts/42", line("account/42", 1, "zombie"))
	collision := s.do("PUT", "/accounts/42", line("account/42", number, "zombie"))
	for _, got := range []reply{stale, collision} {
		require.Equal(t, http.StatusPreconditionFailed, got.status)
		all := fmt.Sprint(got.body, got.header)
		require.NotContains(t, all, strconv.Itoa(number))
		require.NotContains(t, all, holder)
	}
	require.Equal(t, stale.body, collision.body, "to tell a collision apart is to tell the number")
}

func TestNumbersInJSONAreStrings(t *testing.T) {
	t.Parallel()
	// hazard W7
	// The naive body has a number of sixteen digits, and a reader that, as
	// most do, keeps numbers in doubles.
	var naive map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"number":9007199254740993}`), &naive))
	require.Equal(t, int64(9007199254740992), int64(naive["number"].(float64)), "another token's number")

	text, err := json.Marshal(map[string]token.Token{"token": tok("account/42", token.MaxNumber, "a")})
	require.NoError(t, err)
	var told map[string]any
	require.NoError(t, json.Unmarshal(text, &told))
	require.IsType(t, "", told["token"])
	require.Equal(t, float64(token.MaxNumber), float64(token.MaxNumber-1)+1, "even a double has room for it")

	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	for _, lines := range [][]string{nil, {"33"}, {line("account/42", 1, "b")}} {
		for key, value := range s.do("PUT", "/accounts/42", lines...).problem(t) {
			if key != "status" { // RFC 9457 §3.1.2 makes this one a number
				require.IsType(t, "", value, key)
			}
		}
	}
}

func TestClientsDoNotRepeatARefusal(t *testing.T) {
	t.Parallel()
	// hazard W6
	// What clients and proxies are known to send again by themselves.
	retried := []int{
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
	attempts := func(s site) (n int) {
		for n < 3 {
			n++
			if !slices.Contains(retried, s.do("PUT", "/accounts/42", line("account/42", 1, "zombie")).status) {
				break
			}
		}
		return n
	}
	naive := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) })
	require.Equal(t, 3, attempts(serve(t, naive, false)), "409 is sent again and again")

	marks := at(t)
	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: marks}), false)
	require.Equal(t, 1, attempts(s))
	for _, lines := range [][]string{nil, {"33"}} {
		require.NotContains(t, retried, s.do("PUT", "/accounts/42", lines...).status)
	}
}

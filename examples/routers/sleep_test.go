package routers_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/routers"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// telling sends each token that it has admitted.
type telling struct {
	guard.Store
	admitted chan token.Token
}

func (s telling) Admit(ctx context.Context, tok token.Token) error {
	err := s.Store.Admit(ctx, tok)
	if err == nil {
		s.admitted <- tok
	}
	return err
}

// trusting is the service with an unguarded write: a holder that was admitted before may
// still write.
func trusting(a *routers.Accounts, guarded httpguard.Middleware) http.Handler {
	r := chi.NewRouter()
	r.With(guarded.Wrap).Put("/accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = a.DB.ExecContext(r.Context(), "UPDATE accounts SET balance = $1 WHERE id = 42", string(body))
		}
		if err != nil {
			httpguard.Error(w, r, err)
		}
	})
	return r
}

// A holder stops in the middle of its upload, after the guard has admitted it. Its
// successor writes. Then the rest of the body arrives.
//
//	older (33)  admitted  1 ·················· 00
//	newer (34)               admitted, 250
func TestCurlSleepsInTheMiddleOfItsBody(t *testing.T) {
	t.Parallel()
	// hazard W1
	for name, c := range map[string]struct {
		service func(*routers.Accounts, httpguard.Middleware) http.Handler
		without bool  // InFlight
		older   []int // 0: curl could not read the answer
		balance int
	}{
		"the example":                              {routers.Chi, false, []int{412, 0}, 250},
		"the example without InFlight":             {routers.Chi, true, []int{412}, 250},
		"a write without a guard, with InFlight":   {trusting, false, []int{412, 0}, 250},
		"a write without a guard, and no InFlight": {trusting, true, []int{200}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t)
			store := telling{a.Fence, make(chan token.Token, 2)}
			m := guarded(store)
			m.WaitTimeout, m.DangerouslySkipInFlight = time.Hour, c.without
			s, _ := listen(t, c.service(a, m))

			// "-T ." waits for its input and for the answer at the same time.
			older := curl(t, append(field(line("account/42", 33)), "-H", "Expect:", "-T", ".", s.URL+"/accounts/42")...)
			rest, err := older.StdinPipe()
			require.NoError(t, err)
			var out bytes.Buffer
			older.Stdout = &out
			require.NoError(t, older.Start())
			_, err = io.WriteString(rest, "1")
			require.NoError(t, err)
			require.EqualValues(t, 33, (<-store.admitted).Number)

			require.Less(t, put(t, s, "/accounts/42", "250", line("account/42", 34)).status, 300)
			require.Equal(t, 250, balance(t, a))
			_, _ = io.WriteString(rest, "00") // fails if curl has ended with its answer
			_ = rest.Close()
			_ = older.Wait() // the connection may be closed while it sends
			require.Contains(t, c.older, parseCurl(t, out.String())[0].status)
			require.Equal(t, c.balance, balance(t, a))
		})
	}
}

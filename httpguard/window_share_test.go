package httpguard_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

func TestWhoSharesAWindow(t *testing.T) {
	t.Parallel()
	var marks [3]guard.Memory
	var windows [3]httpguard.Window
	observed := guard.DangerouslyObserve{Store: &guard.Memory{}} // has functions: it cannot be compared
	for name, c := range map[string]struct {
		one, other httpguard.Middleware
		shared     bool
	}{
		"middlewares with one Store": {
			httpguard.Middleware{Resources: accounts, Store: &marks[0]},
			httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: &marks[0]}, true,
		},
		"middlewares with two Stores": {
			httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}},
			httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}}, false,
		},
		"middlewares without a Store": {
			httpguard.Middleware{Resources: accounts}, httpguard.Middleware{Resources: accounts}, false,
		},
		"middlewares with a Store that cannot be compared": {
			httpguard.Middleware{Resources: accounts, Store: observed},
			httpguard.Middleware{Resources: accounts, Store: observed}, false,
		},
		"middlewares with one Window": {
			httpguard.Middleware{Resources: accounts, Window: &windows[0], Store: &guard.Memory{}},
			httpguard.Middleware{Resources: accounts, Window: &windows[0]}, true,
		},
		"a middleware that leaves it out": {
			httpguard.Middleware{Resources: accounts, Window: &windows[1], Store: &marks[1]},
			httpguard.Middleware{Resources: accounts, Window: &windows[1], Store: &guard.Memory{}, DangerouslyWithoutWindow: true}, false,
		},
		"a middleware that observes": {
			httpguard.Middleware{Resources: accounts, Window: &windows[2], Store: &marks[2]},
			httpguard.Middleware{Resources: accounts, Window: &windows[2], Store: &guard.Memory{}, DangerouslyObserve: true}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, end := under(t, c.one)
			defer end()
			if c.shared {
				require.Equal(t, http.StatusServiceUnavailable, newer(t, c.other))
				require.Error(t, ctx.Err())
			} else {
				require.Equal(t, http.StatusNotFound, newer(t, c.other))
				require.NoError(t, ctx.Err())
			}
		})
	}
}

package testenv_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestNginxStoresFiles(t *testing.T) {
	t.Parallel()
	mine := testenv.Nginx(t)
	require.Equal(t, http.StatusNotFound, exchange(t, http.MethodGet, mine+"/a/b", "").status)
	require.Equal(t, http.StatusCreated, exchange(t, http.MethodPut, mine+"/a/b", "one").status)
	require.Equal(t, http.StatusNoContent, exchange(t, http.MethodPut, mine+"/a/b", "two").status)
	require.Equal(t, answered{http.StatusOK, "two"}, exchange(t, http.MethodGet, mine+"/a/b", ""))
	require.Equal(t, http.StatusNoContent, exchange(t, http.MethodDelete, mine+"/a/b", "").status)
}

type answered struct {
	status int
	body   string
}

func exchange(t *testing.T, method, url, body string) answered {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answered{response.StatusCode, string(text)}
}

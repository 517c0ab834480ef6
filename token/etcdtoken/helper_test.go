package etcdtoken_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/etcdtoken"
)

const (
	resource = "account/42"
	long     = time.Hour // a ttl that does not end
)

// client returns a client whose connections are closed at the end of the test.
func client(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func issuer(t *testing.T, urls ...string) *etcdtoken.Issuer {
	t.Helper()
	return etcdtoken.New(etcdtoken.Config{Endpoints: urls, Client: client(t, nil)})
}

// admin sends a request under the token of a user, "" for none, and returns the reply.
func admin(t *testing.T, server *testenv.EtcdServer, tok, path string, request map[string]any) (reply struct{ Token string }) {
	t.Helper()
	body, err := json.Marshal(request)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL()+path, bytes.NewReader(body))
	require.NoError(t, err)
	if tok != "" {
		req.Header.Set("Authorization", tok)
	}
	r, err := client(t, nil).Do(req)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode, path)
	require.NoError(t, json.NewDecoder(r.Body).Decode(&reply))
	return reply
}

func acquire(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, long)
	require.NoError(t, err)
	return grant.Token
}

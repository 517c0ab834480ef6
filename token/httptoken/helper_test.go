package httptoken_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token/httptoken"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// balancer sends each request to any of the replicas that run.
type balancer struct {
	*httptest.Server
	mu       sync.Mutex
	replicas []*url.URL
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	b := new(balancer)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			b.mu.Lock()
			defer b.mu.Unlock()
			r.SetURL(b.replicas[rand.N(len(b.replicas))])
		},
		Transport:    transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(func() {
		b.Close()
		transport.CloseIdleConnections()
	})
	return b
}

// serve starts a replica.
func (b *balancer) serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = append(b.replicas, u)
	return s
}

// postgresIssuer returns an issuer with a session for notifications of its own, as another
// process has it.
func postgresIssuer(t *testing.T, pool *pgxpool.Pool, schema string) *pgtoken.Issuer {
	t.Helper()
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	return iss
}

// redisIssuer returns an issuer with connections of its own, as another process has it.
func redisIssuer(t testing.TB, shared *redis.Client, prefix string) *redistoken.Issuer {
	t.Helper()
	options := *shared.Options()
	client := redis.NewClient(&options)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	t.Cleanup(func() {
		require.NoError(t, iss.Close())
		require.NoError(t, client.Close())
	})
	return iss
}

// client returns a client of the service.
func (b *balancer) client() *httptoken.Issuer {
	return &httptoken.Issuer{URL: b.URL, Client: b.Client()}
}

package httptoken_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
)

// An uncontended try on Redis: through the service, by its issuer, and a round trip of the same
// request to a server that replies at once, in turn.
func BenchmarkTry(b *testing.B) {
	shared, prefix := testenv.Redis(b)
	own := redisIssuer(b, shared, prefix)
	service := httptest.NewServer(&httptoken.Handler{Issuer: own})
	defer service.Close()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"token":"t","number":1,"expires_in_ms":60000}`)
	}))
	defer empty.Close()
	var took [3][]float64 // in µs
	for n := 0; b.Loop(); n++ {
		for k, iss := range []token.Issuer{
			&httptoken.Issuer{URL: service.URL, Client: service.Client()}, own, &httptoken.Issuer{URL: empty.URL, Client: empty.Client()},
		} {
			start := time.Now()
			_, err := iss.Acquire(b.Context(), fmt.Sprintf("try/%d/%d", k, n), "a", time.Minute)
			took[k] = append(took[k], float64(time.Since(start).Microseconds()))
			require.NoError(b, err)
		}
	}
	p99 := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	b.ReportMetric(p99(took[0]), "service-p99-µs")
	b.ReportMetric(p99(took[1]), "issuer-p99-µs")
	b.ReportMetric(p99(took[2]), "trip-p99-µs")
	b.ReportMetric(p99(took[0])/(1.3*p99(took[1])+p99(took[2])), "of-the-bound")
}

package otelfence_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	promclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/fencepost/fencepost/contrib/otelfence"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// meteredLocker returns a Locker, and the handler from which Prometheus fetches its
// metrics.
func meteredLocker(iss token.Issuer, fence guard.Store) (*lock.Locker, http.Handler, error) {
	registry := promclient.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry), prometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	hooks, err := otelfence.Hooks(otelfence.Config{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(exporter)),
		Kinds:         true,
	})
	if err != nil {
		return nil, nil, err
	}
	return &lock.Locker{Issuer: iss, Claim: fence.Admit, Hooks: hooks}, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

func ExampleHooks() {
	locker, metrics, err := meteredLocker(new(memtoken.Issuer), new(guard.Memory))
	if err != nil {
		log.Fatal(err)
	}
	deposit := func(context.Context) error {
		other := *locker
		other.NoWait = true
		return other.Hold(context.Background(), "account/42", nil)
	}
	fmt.Println(locker.Hold(context.Background(), "account/42", deposit) != nil)

	page := httptest.NewRecorder()
	metrics.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "fencepost") && !strings.Contains(line, "seconds") {
			fmt.Print(line)
		}
	}
	// Output:
	// true
	// fencepost_lock_acquired_total{fencepost_kind="account"} 1
	// fencepost_lock_not_acquired_total{fencepost_kind="account",fencepost_reason="held"} 1
	// fencepost_lock_released_total{fencepost_kind="account",fencepost_outcome="confirmed"} 1
}

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

	"github.com/fencepost/fencepost/otelfence"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// observedLocker returns a Locker, and what Prometheus is to fetch its metrics
// from.
func observedLocker(iss token.Issuer) (*token.Locker, http.Handler, error) {
	registry := promclient.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry), prometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	observer, err := otelfence.Observer(otelfence.Config{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(exporter)),
		Kinds:         true,
	})
	if err != nil {
		return nil, nil, err
	}
	return &token.Locker{Issuer: iss, Observer: observer}, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

func ExampleObserver() {
	locker, metrics, err := observedLocker(new(memtoken.Issuer))
	if err != nil {
		log.Fatal(err)
	}
	deposit := func(context.Context) error {
		return locker.TryHold(context.Background(), "account/42", nil) // somebody else, in vain
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
	// fencepost_lock_gave_up_total{fencepost_kind="account",fencepost_reason="held"} 1
	// fencepost_lock_released_total{fencepost_kind="account",fencepost_outcome="confirmed"} 1
}

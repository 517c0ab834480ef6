// Package httpjson sends the requests of the drivers of package register that use net/http.
package httpjson

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/token"
)

// NewClient returns the client of a Config that has none. config may be nil. On HTTP/2, it
// notices a connection that has died, also under a watch.
func NewClient(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}}
}

// URL returns address with scheme if it has none, and without a slash at its end.
func URL(scheme, address string) string {
	if !strings.Contains(address, "://") {
		address = scheme + "://" + address
	}
	return strings.TrimSuffix(address, "/")
}

// NewRequest returns a request with body in JSON, or without one if body is nil.
func NewRequest(ctx context.Context, method, url string, body any) (*http.Request, error) {
	var text []byte
	var err error
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// Do sends req. It decodes a reply that is a success into reply, or stores its body there if
// reply is a *[io.ReadCloser]. If reply is nil, only 204 is a success. Another reply is a
// [*Refusal]. The error is [token.ErrUnreachable] if a retry can cure it. clock is the header
// Date.
func Do(client *http.Client, req *http.Request, reply any) (clock time.Time, header http.Header, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return clock, nil, failure(err, outage.Is(err))
	}
	clock, _ = http.ParseTime(resp.Header.Get("Date"))
	if stream, ok := reply.(*io.ReadCloser); ok && resp.StatusCode < 300 {
		*stream = resp.Body
		return clock, resp.Header, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 256<<20)) // to the end: the connection can then be used again
	if err != nil {
		return clock, nil, failure(err, true)
	}
	if resp.StatusCode >= 300 {
		var object struct{ Message string }
		if json.Unmarshal(body, &object) != nil || object.Message == "" { // also from a proxy
			object.Message = fmt.Sprintf("%.300s", body)
		}
		err = &Refusal{resp.StatusCode, string(body), fmt.Sprintf("%s %s: %s: %s", req.Method, req.URL.Redacted(), resp.Status, object.Message)}
		return clock, resp.Header, failure(err, outage.IsStatus(resp.StatusCode))
	}
	if reply == nil && resp.StatusCode == http.StatusNoContent {
		return clock, resp.Header, nil
	}
	if err = json.Unmarshal(body, reply); err != nil {
		err = fmt.Errorf("%s: %w: %.300s", req.URL.Redacted(), err, body)
	}
	return clock, resp.Header, err
}

// Refusal is a reply that is no success.
type Refusal struct {
	Status int
	Body   string
	text   string
}

func (r *Refusal) Error() string { return r.text }

func failure(err error, curable bool) error {
	if curable {
		return fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	}
	return err
}

package connect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token/etcdtoken"
)

// Etcd are members of an etcd. Its methods send requests for which an issuer has no method.
type Etcd struct {
	etcdtoken.Config
	logins map[string]string // the user's token for each member: a check of a password is slow
}

// NewEtcd parses the URLs. Keys begin with prefix.
func NewEtcd(urls, prefix string) (*Etcd, error) {
	e := &Etcd{logins: map[string]string{}}
	e.Prefix, e.Client = cmp.Or(prefix, "fencepost")+"/", &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	for n, text := range strings.Split(urls, ",") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || n > 0 && u.User != nil {
			return nil, BadURL("--etcd: not an http:// or https:// URL with a host, nor several separated by commas,")
		}
		if n == 0 {
			e.User = u.User.Username()
			e.Password, _ = u.User.Password()
			u.User = nil
		}
		e.Endpoints = append(e.Endpoints, strings.TrimSuffix(u.String(), "/"))
	}
	return e, nil
}

// EtcdError is a member's refusal of a request.
type EtcdError string

func (e EtcdError) Error() string { return string(e) }

// Send sends a request to the member at endpoint, under a token of the user, if there is one. It
// decodes the reply, and returns the header Date. It returns an [EtcdError] if the
// member refuses the request, and another error if it refuses the password.
func (e *Etcd) Send(ctx context.Context, endpoint, path string, request map[string]any, reply any) (date time.Time, err error) {
	const authenticate = "/v3/auth/authenticate"
	ctx, cancel := Within(ctx)
	defer cancel()
	if e.User != "" && e.logins[endpoint] == "" && path != authenticate {
		var login struct{ Token string }
		if _, err = e.Send(ctx, endpoint, authenticate, map[string]any{"name": e.User, "password": e.Password}, &login); err != nil {
			return date, fmt.Errorf("user %s: %s", e.User, err.Error())
		}
		e.logins[endpoint] = login.Token
	}
	body, _ := json.Marshal(request)                                                                 // strings and numbers
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+path, bytes.NewReader(body)) // a URL that was parsed
	req.Header.Set("Grpc-Metadata-Hasleader", "true")                                                // a member without a leader then refuses at once
	if login := e.logins[endpoint]; login != "" {
		req.Header.Set("Authorization", login)
	}
	resp, err := e.Client.Do(req)
	if err != nil {
		return date, WithCause(ctx, err)
	}
	defer resp.Body.Close()
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	if resp.StatusCode != http.StatusOK {
		var refused struct{ Error string }
		_ = json.NewDecoder(resp.Body).Decode(&refused) // 404 has another body
		return date, EtcdError(cmp.Or(refused.Error, resp.Status))
	}
	return date, json.NewDecoder(resp.Body).Decode(reply)
}

// SendAny sends a request to one member after another, until one accepts or refuses it.
func (e *Etcd) SendAny(ctx context.Context, path string, request map[string]any, reply any) (err error) {
	for _, endpoint := range e.Endpoints {
		if _, err = e.Send(ctx, endpoint, path, request, reply); err == nil || errors.As(err, new(EtcdError)) {
			break
		}
	}
	return err
}

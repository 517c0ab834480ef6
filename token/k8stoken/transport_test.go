package k8stoken_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/k8stoken"
	"github.com/fencepost/fencepost/token/memtoken"
)

const guarded = "/api/v1/namespaces/ns/configmaps/m"

// server replies to each request in turn, and then to all with the last reply. requests are
// their methods and bodies.
func server(t *testing.T, replies ...string) (url string, requests *[]string) {
	t.Helper()
	requests = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*requests = append(*requests, r.Method+" "+r.URL.RawQuery+" "+r.Header.Get("Content-Type")+" "+string(body))
		reply := replies[min(len(*requests), len(replies))-1]
		if strings.Contains(reply, "Failure") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func denied(message string) string {
	return status(422, `configmaps "m" is forbidden: ValidatingAdmissionPolicy 'fencepost' with binding 'fencepost' denied request: fencepost: `+message, "Invalid")
}

func send(t *testing.T, tok token.Token, url, method, kind, body string) (*http.Response, error) {
	t.Helper()
	ctx := t.Context()
	if tok != (token.Token{}) {
		ctx = token.NewContext(ctx, tok)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/"+kind)
	resp, err := k8stoken.Transport{Resource: "account/42", Namespace: "ns"}.RoundTrip(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

var tok = token.Token{Resource: "account/42", Number: 33, Holder: "web-1:4711/a b"}

// stampOf returns the parts of the stamp in the body of a request.
func stampOf(t *testing.T, request string) []string {
	t.Helper()
	var o struct {
		Metadata struct{ Annotations map[string]string }
	}
	require.NoError(t, json.Unmarshal([]byte(request[strings.Index(request, "{"):]), &o), request)
	return strings.SplitN(o.Metadata.Annotations["fencepost.dev/token"], " ", 4)
}

func TestAStamp(t *testing.T) {
	t.Parallel()
	url, requests := server(t, "{}")
	nonce := func(method, path, kind, body string) string {
		t.Helper()
		_, err := send(t, tok, url+path, method, kind, body)
		require.NoError(t, err, body)
		parts := stampOf(t, (*requests)[len(*requests)-1])
		require.Regexp(t, `^ns\.account-42\.fencepost-[0-9a-f]{24}$`, parts[0])
		require.Equal(t, []string{"33", "web-1:4711/a b"}, []string{parts[1], parts[3]})
		return parts[2]
	}
	const put, patch, merge = http.MethodPut, http.MethodPatch, "merge-patch+json"
	base := nonce(put, guarded, "json", `{"data":{"n":9007199254740993}}`)
	require.Contains(t, (*requests)[0], "9007199254740993")
	for _, same := range []string{
		`{"data":{"n":9007199254740993},"metadata":null}`,
		`{"metadata":{"annotations":null},"data":{"n":9007199254740993}}`,
		`{"data":{"n":9007199254740993},"metadata":{"resourceVersion":"7","generation":3,"managedFields":[{}],"annotations":{"fencepost.dev/token":"x"}},"status":{"replicas":1}}`,
	} {
		require.Equal(t, base, nonce(put, guarded, "json", same), same)
	}
	for _, other := range []string{
		nonce(put, guarded, "json", `{"data":{"n":9007199254740992}}`),
		nonce(put, guarded, "json", `{"data":{"n":9007199254740993},"metadata":{"annotations":{"a":"b"}}}`),
		nonce(patch, guarded, merge, `{}`),
		nonce(patch, guarded, "strategic-merge-patch+json", `{"metadata":{"labels":{}}}`),
		nonce(patch, guarded, "apply-patch+yaml", `{"metadata":{"labels":{"a":"b"}}}`),
	} {
		require.NotEqual(t, base, other)
	}
	require.NotEqual(t, nonce(put, guarded+"/status", "json", `{"status":1}`), nonce(put, guarded+"/status", "json", `{"status":2}`))
	_, err := send(t, tok, url+"/api/v1/namespaces/ns/configmaps", http.MethodPost, "json", `{"metadata":{"annotations":{"a":"b"}}}`)
	require.NoError(t, err)
	require.Contains(t, (*requests)[len(*requests)-1], `"a":"b"`)
}

func TestWhatCannotCarryAToken(t *testing.T) {
	t.Parallel()
	url, requests := server(t, "{}")
	for _, c := range []struct{ method, path, kind, body, want string }{
		{http.MethodPatch, "", "json-patch+json", `[]`, `a body of the type "application/json-patch+json"`},
		{http.MethodPut, "", "vnd.kubernetes.protobuf", `k8s`, "application/vnd.kubernetes.protobuf"},
		{http.MethodPatch, "", "apply-patch+cbor", `x`, "application/apply-patch+cbor"},
		{http.MethodDelete, "", "vnd.kubernetes.protobuf", `k8s`, "application/vnd.kubernetes.protobuf"},
		{http.MethodPatch, "", "apply-patch+yaml", "a: b", "not one object of JSON"},
		{http.MethodPut, "", "json", `[]`, "not one object of JSON"},
		{http.MethodPut, "", "json", `null`, "not one object of JSON"},
		{http.MethodPut, "", "json", `{}{}`, "not one object of JSON"},
		{http.MethodPatch, "", "merge-patch+json", `{"metadata":null}`, "metadata is <nil>"},
		{http.MethodPatch, "", "merge-patch+json", `{"metadata":{"annotations":null}}`, "annotations is <nil>"},
		{http.MethodPut, "", "json", `{"metadata":1}`, "metadata is 1"},
		{http.MethodPatch, "/scale", "merge-patch+json", `{}`, "the subresource scale"},
	} {
		_, err := send(t, tok, url+guarded+c.path, c.method, c.kind, c.body)
		require.ErrorContains(t, err, "k8stoken: "+c.method+" "+guarded, c.body)
		require.ErrorContains(t, err, c.want)
		if !strings.Contains(c.kind, "delete") {
			_, err = send(t, token.Token{}, url+guarded+c.path, c.method, c.kind, c.body)
			require.NoError(t, err, "without a token, it is sent as it is")
			require.True(t, strings.HasSuffix((*requests)[len(*requests)-1], " "+c.body))
		}
	}
	require.Len(t, *requests, 12, "none of the others was sent")
	_, err := send(t, token.Token{Resource: "account/42", Number: 33}, url, http.MethodPut, "json", `{}`)
	require.ErrorIs(t, err, token.ErrInvalid)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("{}"))
	_, err = k8stoken.Transport{}.RoundTrip(req)
	require.EqualError(t, err, "k8stoken: Transport.Resource is empty")
	locks := lock.Locker{Issuer: &memtoken.Issuer{}, DangerouslyWithoutClaim: true}
	var after context.Context
	require.NoError(t, locks.Hold(t.Context(), "account/42", func(ctx context.Context) error { after = context.WithoutCancel(ctx); return nil }))
	req, _ = http.NewRequestWithContext(after, http.MethodDelete, url, nil)
	_, err = k8stoken.Transport{Resource: "account/42"}.RoundTrip(req)
	require.ErrorIs(t, err, token.ErrReleased)
	require.Len(t, *requests, 12)
}

// A refusal of these is not that of one object, so it is a response.
func TestWhatIsSentAsItIs(t *testing.T) {
	t.Parallel()
	const pod = "/api/v1/namespaces/ns/pods/p"
	url, requests := server(t, denied("stale token: x after y"))
	sent := func(method, path string) bool {
		t.Helper()
		n := len(*requests)
		resp, err := send(t, tok, url+path, method, "json", `{"a": 1}`)
		require.Len(t, *requests, n+1, path)
		if !strings.HasSuffix((*requests)[n], ` {"a": 1}`) {
			require.ErrorIs(t, err, guard.ErrStale, path)
			return false
		}
		require.NoError(t, err, path)
		require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode, path)
		return true
	}
	for _, path := range []string{
		pod + "/binding", "/api/v1/namespaces/ns/bindings", pod + "/eviction", pod + "/resize", "/k8s/c/api/v1/nodes/n/proxy/api/v1/x", "/api/v1/namespaces/api/pods/v1/proxy",
		"/apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authorization.k8s.io/v1/namespaces/ns/localsubjectaccessreviews", "/version",
	} {
		require.True(t, sent(http.MethodPost, path), path)
	}
	for _, path := range []string{
		pod, pod + "/status", "/k8s/c" + pod, "/api/kas" + pod, "/api/v1/namespaces/api/pods/v1", "/api/v1/namespaces/n", "/api/v1/namespaces/n/finalize", "/apis/a.b/stable/as/c/approval",
		"/apis/a.b/v1/namespaces/ns/as", "/apis/a.b/v1/as", "/apis/a.b/v1/namespaces/ns/bindings", "/api/v1/namespaces/ns/configmaps/bindings",
	} {
		require.False(t, sent(http.MethodPut, path), path)
	}
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/ns/pods", "/api/v1/namespaces/ns/pods/", "/apis/a.b/v1/namespaces/api/as"} {
		require.True(t, sent(http.MethodDelete, path), path)
	}
	for _, path := range []string{pod, "/api/v1/namespaces/n", "/apis/a.b/v1/as/c", "/apis/a.b/v1/namespaces/ns/as/c/"} {
		n := len(*requests)
		_, err := send(t, tok, url+path, http.MethodDelete, "json", "")
		require.ErrorIs(t, err, guard.ErrStale, path)
		require.Len(t, *requests, n+2, path)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const stale, own, unannounced = "stale token: x after y", "the write carries no token of its own", "no write under a token has announced the deletion"
	for what, c := range map[string]struct {
		method, query, body string
		replies             []string
		sent                string // the methods
		want                string // of the result's text
	}{
		"stale":                               {"PUT", "", "{}", []string{denied(stale)}, "PUT", "k8stoken: PUT " + guarded + ": guard: stale token account/42#33: mark is newer: x after y"},
		"an object that quotes a refusal":     {"PUT", "", "{}", []string{`{"data":{"x":"denied request: fencepost: stale token"}}`}, "PUT", `{"data":`},
		"a field that quotes a refusal":       {"PUT", "", "{}", []string{status(422, `ConfigMap "m" is invalid: x: Invalid value: "denied request: fencepost: stale token"`, "Invalid")}, "PUT", "is invalid"},
		"another refusal":                     {"PUT", "", "{}", []string{denied("the write carries no token")}, "PUT", "carries no token"},
		"the same nonce":                      {"PUT", "", "{}", []string{denied(own), "{}"}, "PUT PUT", "{}"},
		"the same nonce, and stale":           {"PUT", "", "{}", []string{denied(own), denied(stale)}, "PUT PUT", "stale token"},
		"a random nonce is the last":          {"PUT", "", "{}", []string{denied(own)}, "PUT PUT", "no token of its own"},
		"a deletion that needs none":          {"DELETE", "", "", []string{"{}"}, "DELETE", "{}"},
		"a deletion":                          {"DELETE", "?x=1", `{"a":1}`, []string{denied(unannounced), "{}", "{}"}, "DELETE PATCH DELETE", "{}"},
		"a deletion by a stale token":         {"DELETE", "", "", []string{denied(unannounced), denied(stale)}, "DELETE PATCH", "stale token"},
		"a deletion after another write":      {"DELETE", "", "", []string{denied(unannounced), "{}", denied(unannounced)}, "DELETE PATCH DELETE", unannounced},
		"a dry run":                           {"DELETE", "?dryRun=All", "", []string{denied(unannounced)}, "DELETE", unannounced},
		"a dry run of the body":               {"DELETE", "", `{"dryRun":["All"]}`, []string{denied(unannounced)}, "DELETE", unannounced},
		"a deletion that the Lease refuses":   {"DELETE", "", "", []string{denied("stale token: the Lease has a greater number")}, "DELETE PATCH", "the Lease has a greater number"},
		"announced by an earlier token":       {"DELETE", "", "", []string{denied("stale token: the Lease has a greater number"), "{}", "{}"}, "DELETE PATCH DELETE", "{}"},
		"a dry run that the Lease refuses":    {"DELETE", "?dryRun=All", "", []string{denied(stale)}, "DELETE", stale},
		"an announcement that is not allowed": {"DELETE", "", "", []string{denied(unannounced), denied("other")}, "DELETE PATCH", "other"},
	} {
		url, requests := server(t, c.replies...)
		resp, err := send(t, tok, url+guarded+c.query, c.method, "json", c.body)
		text := ""
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			text = string(body)
		} else {
			text = err.Error()
			require.True(t, guard.IsRefusal(err), what)
		}
		require.Contains(t, text, c.want, what)
		var methods []string
		for _, r := range *requests {
			methods = append(methods, strings.Fields(r)[0])
		}
		require.Equal(t, c.sent, strings.Join(methods, " "), what)
		last := c.replies[len(c.replies)-1]
		require.Equal(t, strings.Contains(last, "Failure") && strings.Contains(last, "stale") && c.query == "" && c.want != "is invalid", err != nil, what)
		switch what {
		case "the same nonce":
			require.NotEqual(t, stampOf(t, (*requests)[0])[2], stampOf(t, (*requests)[1])[2])
		case "a deletion":
			require.Equal(t, "DELETE x=1 application/json "+c.body, (*requests)[2])
			require.True(t, strings.HasPrefix((*requests)[1], "PATCH  application/merge-patch+json "), (*requests)[1])
			require.Equal(t, []string{"33", "delete", "web-1:4711/a b"}, stampOf(t, (*requests)[1])[1:])
		}
	}
}

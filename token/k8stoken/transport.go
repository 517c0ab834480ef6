package k8stoken

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Transport is an [http.RoundTripper] that writes the token of a request's context into the
// object that the request sends, as the annotation fencepost.dev/token. The policies that
// `fencepost kubernetes policy` prints make the API server refuse the write if the object or
// its Lease has a newer one. Transport alone fences nothing.
//
// client-go and controller-runtime take it by Wrap of rest.Config, whose ContentType must be
// "application/json". It is safe for concurrent use if Base is.
type Transport struct {
	// Base sends the requests. Nil means [http.DefaultTransport].
	Base http.RoundTripper
	// Resource is that of the token: the name of the lock. Required.
	Resource string
	// Namespace is that of the Lease, as in [Config]. Empty means "default".
	Namespace string
}

const (
	// tokenAnnotation is the stamp of the last write: lease, number, nonce and holder.
	tokenAnnotation = "fencepost.dev/token"
	mergePatch      = "application/merge-patch+json"

	// What the server writes behind the names of policy and binding: see policy.yaml of the command.
	denied     = "denied request: fencepost: "
	staleToken = denied + "stale token"
	inherited  = denied + "the write carries no token of its own"
)

var (
	// stampable are the types of bodies that can be objects of JSON.
	stampable = []string{"application/json", mergePatch, "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
	// objectPath has the group, the resource if it is in a namespace, the name and the subresource.
	// Those of a namespace, status and finalize, look like collections.
	objectPath = regexp.MustCompile(`^.*?/(?:api/v1|apis/([^/]+)/[^/]+)/(?:namespaces/[^/]+/([^/]+)|[^/]+)(?:/([^/]+))?(?:/(.+?))?/?$`)
	// carriers are the subresources whose objects have the annotations of the object; scale is refused.
	carriers = []string{"", "status", "approval", "finalize", "scale"}
)

// RoundTrip implements [http.RoundTripper]. It stamps POST, PUT and PATCH of an object, and of
// its subresources status, approval and finalize. It sends these as they are: a request without
// a body, another subresource, a binding, an access review, the DELETE of a collection,
// and what has a context without a token of Resource. The policy refuses an unstamped write to
// a guarded object.
//
// A refusal as stale is not a response but an error with a [*guard.StaleError]: nothing was
// applied. All others are responses. If there is no response, or its status is 5xx, the
// outcome is unknown.
//
// The stamp's nonce is a hash of what the body says, so a write that is repeated changes
// nothing, and the server does not store it. If the object was changed meanwhile by what the
// policy does not judge, such as the subresource scale, the policy takes the repeated write
// for one without a token, and RoundTrip sends it once more with a random nonce.
//
// A DELETE cannot carry a token. If the policy refuses it, RoundTrip announces it by a patch
// with the token, and sends it again. The right to patch is needed. Any write in between ends
// the announcement, and the DELETE is refused. A dry run is not announced.
//
// RoundTrip returns these errors if the context has a token, and sends nothing:
// [token.ErrReleased] if the token's lease was released; an error that is [token.ErrInvalid]
// if the token is incomplete; an error if the body is a JSON patch, protobuf, CBOR or YAML, or
// removes all annotations, and for the subresource scale. If Resource is empty, it returns an
// error for each write.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Base == nil {
		t.Base = http.DefaultTransport
	}
	tok, err := token.FromContext(req.Context(), t.Resource)
	hasBody := req.Body != nil && req.Body != http.NoBody
	path := objectPath.FindStringSubmatch(req.URL.Path)
	switch {
	case !hasBody && req.Method != http.MethodDelete:
		return t.Base.RoundTrip(req)
	case t.Resource == "":
		err = errors.New("k8stoken: Transport.Resource is empty")
	case errors.Is(err, token.ErrMissing), err == nil && !carries(req.Method, path):
		return t.Base.RoundTrip(req)
	}
	w := write{Transport: t, Request: req, tok: tok}
	if hasBody && err == nil {
		w.body, err = io.ReadAll(req.Body)
	}
	if req.Body != nil {
		_ = req.Body.Close() // required of a RoundTripper, also on errors
	}
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return nil, err
	case len(w.body) > 0 && !slices.Contains(stampable, kind):
		return nil, w.fail("a body of the type %q cannot carry a token: send JSON, a merge patch, a strategic merge patch or an apply (by client-go, with ContentType \"application/json\" in its rest.Config)", kind)
	case req.Method == http.MethodDelete:
		return w.delete()
	case path[4] == "scale":
		return nil, w.fail("the subresource scale cannot carry a token: write spec.replicas of the object")
	}
	return w.put()
}

// carries reports whether a request can carry a token. A server copies the annotations of a
// binding to the Pod, without a judgement. It refuses an access review that has any.
func carries(method string, path []string) bool {
	return path != nil && path[1] != "authorization.k8s.io" && path[1]+path[2] != "bindings" &&
		slices.Contains(carriers, path[4]) && (method != http.MethodDelete || path[3] != "")
}

// write is a request that may be sent again after a refusal, so that at most one of its
// copies is applied.
type write struct {
	Transport
	*http.Request
	tok  token.Token
	body []byte
}

func (w write) put() (*http.Response, error) {
	body, err := w.stamped("")
	if err != nil {
		return nil, err
	}
	resp, refusal, err := w.send(w.Method, body)
	if strings.Contains(refusal, inherited) {
		body, _ = w.stamped(rand.Text())
		resp, refusal, err = w.send(w.Method, body)
	}
	return w.result(resp, refusal, err)
}

// delete sends the deletion first, since an object without the label needs no announcement. A
// refusal judges the last writer's token, even as stale: that of the announcement judges w's.
func (w write) delete() (*http.Response, error) {
	resp, refusal, err := w.send(w.Method, w.body)
	isDryRun := w.URL.Query().Has("dryRun") || bytes.Contains(w.body, []byte(`"dryRun"`))
	if !strings.Contains(refusal, denied) || isDryRun {
		return resp, err
	}
	announcement, _ := json.Marshal(object{"metadata": object{"annotations": object{tokenAnnotation: w.stamp("delete")}}})
	resp, refusal, err = w.send(http.MethodPatch, announcement)
	if err != nil || resp.StatusCode >= 300 {
		return w.result(resp, refusal, err)
	}
	_ = resp.Body.Close()
	return w.result(w.send(w.Method, w.body))
}

type object = map[string]any

// stamped returns the body with a stamp. An empty nonce means a hash of what it says: of all
// but the last stamp, and what the server counts or ignores in an object that was read.
func (w write) stamped(nonce string) ([]byte, error) {
	var o object
	d := json.NewDecoder(bytes.NewReader(w.body))
	d.UseNumber() // integers above 2^53 stay as they are
	if err := d.Decode(&o); err != nil || o == nil || d.More() {
		return nil, w.fail("the body is not one object of JSON, and cannot carry a token")
	}
	metadata, err := w.child(o, "metadata")
	if err != nil {
		return nil, err
	}
	annotations, err := w.child(metadata, "annotations")
	if err != nil {
		return nil, err
	}
	if delete(annotations, tokenAnnotation); nonce == "" {
		said, m := maps.Clone(o), maps.Clone(metadata)
		for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
			delete(m, field)
		}
		said["metadata"] = m
		if !strings.HasSuffix(w.URL.Path, "/status") {
			delete(said, "status")
		}
		text, _ := json.Marshal(said)
		hash := sha256.Sum256(text)
		nonce = fmt.Sprintf("%x", hash[:8])
	}
	annotations[tokenAnnotation] = w.stamp(nonce)
	return json.Marshal(o)
}

// child returns the object in a field of o. A patch removes a field that is null, with all
// that is in it; elsewhere null is as good as none.
func (w write) child(o object, field string) (object, error) {
	value, set := o[field]
	child, is := value.(object)
	if set && !is && (value != nil || w.Method == http.MethodPatch) {
		return nil, w.fail("%s is %v, and cannot carry a token", field, value)
	}
	if child == nil {
		child = object{}
		o[field] = child
	}
	return child, nil
}

func (w write) stamp(nonce string) string {
	return fmt.Sprintf("%s.%s %d %s %s", cmp.Or(w.Namespace, "default"), name(w.Resource), w.tok.Number, nonce, w.tok.Holder)
}

// send sends the request with another body, and announces a deletion if the method differs.
// It returns the text of a 422. In each encoding, the message of a Status is in it as it is.
func (w write) send(method string, body []byte) (resp *http.Response, refusal string, err error) {
	out := w.Clone(w.Context())
	out.ContentLength = int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body, _ = out.GetBody()
	if out.Method != method {
		out.Method, out.URL.RawQuery = method, ""
		out.Header.Set("Content-Type", mergePatch)
	}
	resp, err = w.Base.RoundTrip(out)
	if err == nil && resp.StatusCode >= 500 {
		// client-go would send the write again. If the first was applied, and a newer leader came,
		// the refusal of the second would hide the first.
		resp.Header.Del("Retry-After")
	}
	if err != nil || resp.StatusCode != http.StatusUnprocessableEntity {
		return resp, "", err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, string(text), err
}

// result is what RoundTrip returns. A field that is invalid may quote a refusal.
func (w write) result(resp *http.Response, refusal string, err error) (*http.Response, error) {
	if kind, detail, stale := strings.Cut(refusal, staleToken); err == nil && stale && !strings.Contains(kind, " is invalid: ") {
		detail, _, _ = strings.Cut(detail, `"`)
		return nil, w.fail("%w%s", &guard.StaleError{Token: w.tok}, detail)
	}
	return resp, err
}

func (w write) fail(format string, args ...any) error {
	return fmt.Errorf("k8stoken: %s %s: %w", w.Method, w.URL.Path, fmt.Errorf(format, args...))
}

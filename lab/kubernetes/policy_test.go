package kubernetes_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

const (
	lease     = "default.billing" // the label of a guarded object
	maps      = "/api/v1/namespaces/default/configmaps"
	apps      = "/apis/apps/v1/namespaces/default/deployments"
	widgets   = "/apis/example.com/v1/namespaces/default/widgets"
	policies  = "/apis/admissionregistration.k8s.io/v1/validatingadmission"
	plain     = "application/json"
	merge     = "application/merge-patch+json"
	strategic = "application/strategic-merge-patch+json"
	jsonPatch = "application/json-patch+json"
	apply     = "application/apply-patch+yaml"
	force     = "?fieldManager=m&force=true"

	// What refusals contain.
	stale        = "denied request: fencepost: stale token"
	noToken      = "denied request: fencepost: the write carries no token"
	notOwn       = "denied request: fencepost: the write carries no token of its own"
	otherLease   = "denied request: fencepost: the token is of another Lease"
	notAnnounced = "denied request: fencepost: no write under a token has announced the deletion"
	behindLease  = "denied request: fencepost: stale token: the Lease has a greater number"
)

// send sends a request of the administrator.
func (c *cluster) send(t *testing.T, method, path, kind string, body any) (status int, text string) {
	t.Helper()
	sent, isText := body.(string)
	if !isText && body != nil {
		j, err := json.Marshal(body)
		require.NoError(t, err)
		sent = string(j)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.url()+path, strings.NewReader(sent))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", kind)
	r, err := c.http.Do(req)
	require.NoError(t, err)
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(got)
}

// install applies what the command prints, and returns when it is in force.
func (c *cluster) install(t *testing.T, flags ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "-C", "../../cmd/fencepost", ".", "kubernetes", "policy"}, flags...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	printed, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	kind, name := regexp.MustCompile(`(?m)^kind: ValidatingAdmission(\w+)$`), regexp.MustCompile(`(?m)^metadata: \{name: (\S+)\}$`)
	for _, document := range strings.Split(string(printed), "\n---\n") {
		path := policies + map[string]string{"Policy": "policies/", "PolicyBinding": "policybindings/"}[kind.FindStringSubmatch(document)[1]]
		status, text := c.send(t, http.MethodPatch, path+name.FindStringSubmatch(document)[1]+force, apply, document)
		require.Equal(t, http.StatusCreated, status, text)
	}
	require.Eventually(t, func() bool {
		_, text := c.send(t, http.MethodPost, maps+"?dryRun=All", plain, c.object(maps, "probe", lease, "", 0))
		return strings.Contains(text, noToken)
	}, serverproc.Timeout, 50*time.Millisecond)
}

// define makes the custom resource widgets.
func (c *cluster) define(t *testing.T) {
	t.Helper()
	c.must(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object{
		"metadata": object{"name": "widgets.example.com"},
		"spec": object{
			"group": "example.com", "scope": "Namespaced", "names": object{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []object{{
				"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}, nil)
	require.Eventually(t, func() bool {
		status, _ := c.send(t, http.MethodGet, widgets, plain, nil)
		return status == http.StatusOK
	}, serverproc.Timeout, 50*time.Millisecond)
}

// stamp is the annotation of a write. Each has a nonce of its own.
func stamp(number int64, holder string) string {
	return fmt.Sprintf("%s %d %s %s", lease, number, rand.Text(), holder)
}

func annotations(stamp string) object { return object{"fencepost.dev/token": stamp} }

// object is a whole one, as it is created, put and applied. What n changes is written by
// change too.
func (c *cluster) object(path, name, label, stamp string, n int) object {
	o := change(path, n)
	metadata := object{"name": name}
	if label != "" {
		metadata["labels"] = object{"fencepost.dev/lease": label}
	}
	if stamp != "" {
		metadata["annotations"] = annotations(stamp)
	}
	o["metadata"] = metadata
	switch path {
	case maps:
		o["apiVersion"], o["kind"] = "v1", "ConfigMap"
	case widgets:
		o["apiVersion"], o["kind"] = "example.com/v1", "Widget"
	case apps:
		pods := object{"app": "x"}
		o["apiVersion"], o["kind"] = "apps/v1", "Deployment"
		spec := o["spec"].(object)
		spec["selector"] = object{"matchLabels": pods}
		spec["template"] = object{"metadata": object{"labels": pods}, "spec": object{"containers": []object{{"name": "c", "image": "i"}}}}
	}
	return o
}

func change(path string, n int) object {
	if path == maps {
		return object{"data": object{"n": fmt.Sprint(n)}}
	}
	return object{"spec": object{"minReadySeconds": n}}
}

// form is a way to write an object.
type form struct {
	name, method, kind, query string
	body                      func(path, name, label, stamp string, n int) any
}

func (c *cluster) forms() []form {
	whole := func(path, name, label, stamp string, n int) any { return c.object(path, name, label, stamp, n) }
	part := func(path, _, label, stamp string, n int) any {
		o := change(path, n)
		metadata := object{}
		if label != lease { // null removes it
			metadata["labels"] = object{"fencepost.dev/lease": map[bool]any{true: nil, false: label}[label == ""]}
		}
		if stamp != "" {
			metadata["annotations"] = annotations(stamp)
		}
		o["metadata"] = metadata
		return o
	}
	operations := func(path, _, label, stamp string, n int) any {
		ops := []object{{"op": "add", "path": "/spec/minReadySeconds", "value": n}}
		if path == maps {
			ops = []object{{"op": "add", "path": "/data/n", "value": fmt.Sprint(n)}}
		}
		if label == "" {
			ops = append(ops, object{"op": "remove", "path": "/metadata/labels/fencepost.dev~1lease"})
		} else if label != lease {
			ops = append(ops, object{"op": "add", "path": "/metadata/labels/fencepost.dev~1lease", "value": label})
		}
		if stamp != "" {
			ops = append(ops, object{"op": "add", "path": "/metadata/annotations/fencepost.dev~1token", "value": stamp})
		}
		return ops
	}
	return []form{
		{"put", http.MethodPut, plain, "", whole},
		{"merge", http.MethodPatch, merge, "", part},
		{"strategic", http.MethodPatch, strategic, "", part},
		{"json", http.MethodPatch, jsonPatch, "", operations},
		{"apply", http.MethodPatch, apply, force, whole},
	}
}

// mixed are the writes to an object whose mark is 33 of a, in turn.
var mixed = []struct{ what, label, stamp, refusal string }{
	{"a newer token", lease, stamp(34, "b"), ""},
	{"the same holder again", lease, stamp(34, "b"), ""},
	{"an older token", lease, stamp(33, "a"), stale},
	{"fewer digits", lease, stamp(9, "b"), stale},
	{"an equal number of another holder", lease, stamp(34, "a"), stale},
	{"of a holder whose name begins with the holder's", lease, stamp(34, "b c"), stale},
	{"no token", lease, "", noToken},
	{"no number", lease, lease + " 99x n b", noToken},
	{"number zero", lease, lease + " 0 n b", noToken},
	{"sixteen digits", lease, lease + " 9999999999999999 n b", noToken},
	{"no holder", lease, lease + " 35 n ", noToken},
	{"no nonce", lease, lease + " 35 b", noToken},
	{"a token of another Lease", lease, "default.other 99 n b", otherLease}, // hazard G47
	{"a token of the Lease of another namespace", lease, "shop.billing 99 n b", otherLease},
	{"the label is removed", "", stamp(35, "b"), otherLease},
	{"the label is that of another Lease", "default.other", "default.other 99 n b", otherLease},
	{"a last newer token", lease, stamp(36, "c"), ""},
}

// hazards G45, G47
func TestThePolicyJudgesEachFormOfAWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.define(t)
	c.install(t, "--resource", "configmaps", "--resource", "deployments.apps", "--resource", "widgets.example.com", "--lease", "billing")
	var checks, twins atomic.Int64
	t.Run("forms", func(t *testing.T) {
		for _, path := range []string{maps, apps, widgets} {
			for _, f := range c.forms() {
				if path == widgets && (f.name == "strategic" || f.name == "put") {
					continue // they have no such patch, and a PUT needs a resourceVersion
				}
				t.Run(path[strings.LastIndex(path, "/")+1:]+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					one, n := path+"/"+f.name+f.query, 0
					write := func(what, label, stamp, refusal string) {
						t.Helper()
						n++
						status, text := c.send(t, f.method, one, f.kind, f.body(path, f.name, label, stamp, n))
						if refusal == "" {
							require.Equal(t, http.StatusOK, status, "%s: %s", what, text)
							return
						}
						require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", what, text)
						require.Contains(t, text, refusal, what)
					}
					create := func(label string) {
						t.Helper()
						method, at, kind := http.MethodPost, path, plain
						if f.kind == apply { // the manager's own label can be removed by an apply
							method, at, kind = f.method, one, f.kind
						}
						status, text := c.send(t, method, at, kind, c.object(path, f.name, label, stamp(33, "a"), 0))
						require.Equal(t, http.StatusCreated, status, text)
					}
					create(lease)
					for _, m := range mixed {
						write(m.what, m.label, m.stamp, m.refusal)
						checks.Add(1)
					}
					// A write that leaves the annotation out inherits it, and so does a copy of it.
					write("the last stamp with another content", lease, mixed[len(mixed)-1].stamp, notOwn)
					checks.Add(1)

					// The unguarded twin takes all of them.
					require.Equal(t, http.StatusOK, first(c.send(t, http.MethodPatch, path+"/"+f.name, merge, object{"metadata": object{"annotations": annotations(lease + " 36 delete c")}})))
					require.Equal(t, http.StatusOK, first(c.send(t, http.MethodDelete, path+"/"+f.name, plain, nil)))
					create("")
					for _, m := range mixed {
						if m.label == lease {
							stamp := m.stamp
							status, text := c.send(t, f.method, one, f.kind, f.body(path, f.name, map[bool]string{true: lease, false: ""}[f.kind != plain && f.kind != apply], stamp, n))
							require.Equal(t, http.StatusOK, status, "%s: %s", m.what, text)
							twins.Add(1)
						}
					}
				})
			}
		}
	})
	t.Logf("%d checks of writes to guarded objects, %d of their twins", checks.Load(), twins.Load())
}

func first(status int, _ string) int { return status }

// step is a request, and the refusal that it gets; none if it is empty.
type step struct {
	what, refusal, method, path, kind string
	body                              any
}

func (c *cluster) steps(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		status, text := c.send(t, s.method, s.path, s.kind, s.body)
		if s.refusal == "" {
			require.Less(t, status, 300, "%s: %s", s.what, text)
		} else {
			require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", s.what, text)
			require.Contains(t, text, s.refusal, s.what)
		}
	}
}

func TestThePolicyJudgesCreationsDeletionsAndSubresources(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.define(t)
	c.install(t, "--resource", "configmaps", "--resource", "deployments.apps", "--resource", "deployments/scale.apps",
		"--resource", "widgets.example.com", "--resource", "persistentvolumeclaims", "--resource", "namespaces",
		"--resource", "certificatesigningrequests.certificates.k8s.io", "--lease", "billing", "--lease", "other")
	meta := func(stamp string) object { return object{"metadata": object{"annotations": annotations(stamp)}} }
	announce := func(number int64, holder string) object {
		return meta(fmt.Sprintf("%s %d delete %s", lease, number, holder))
	}
	announced := func(path string, number int64, holder string) []step {
		return []step{
			{"announce", "", http.MethodPatch, path, merge, announce(number, holder)},
			{"delete", "", http.MethodDelete, path, plain, nil},
		}
	}
	const post, put, patch, del = http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

	t.Run("creations", func(t *testing.T) {
		t.Parallel()
		c.steps(t, []step{
			{"without a token", noToken, post, maps, plain, c.object(maps, "new", lease, "", 0)},
			{"by apply, without a token", noToken, patch, maps + "/new" + force, apply, c.object(maps, "new", lease, "", 0)},
			{"of another Lease", otherLease, post, maps, plain, c.object(maps, "new", lease, "default.other 33 n a", 0)},
			{"of another Lease, by its token", "", post, maps, plain, c.object(maps, "of-other", "default.other", "default.other 1 n a", 0)},
			{"which its own token then deletes", "", patch, maps + "/of-other", merge, meta("default.other 1 delete a")},
			{"", "", del, maps + "/of-other", plain, nil},
			{"not guarded", "", post, maps, plain, c.object(maps, "free", "", "", 0)},
			{"not guarded: a patch", "", patch, maps + "/free", merge, change(maps, 1)},
			{"not guarded: a stale stamp", "", patch, maps + "/free", merge, meta(stamp(1, "z"))},
			{"begins to be guarded without a token", notOwn, patch, maps + "/free", merge, object{"metadata": object{"labels": object{"fencepost.dev/lease": lease}}}},
			{"begins to be guarded", "", put, maps + "/free", plain, c.object(maps, "free", lease, stamp(33, "a"), 2)},
			{"and is", stale, patch, maps + "/free", merge, meta(stamp(32, "z"))},
			{"by apply", "", patch, maps + "/new" + force, apply, c.object(maps, "new", lease, stamp(33, "a"), 0)},
			{"and it is guarded", stale, patch, maps + "/new" + force, apply, c.object(maps, "new", lease, stamp(32, "z"), 1)},
		})
		c.steps(t, announced(maps+"/free", 33, "a"))
	})
	t.Run("deletions", func(t *testing.T) { // hazard G46
		t.Parallel()
		one := maps + "/doomed"
		c.steps(t, []step{
			{"", "", post, maps, plain, c.object(maps, "doomed", lease, stamp(34, "b"), 0)},
			{"not announced", notAnnounced, del, one, plain, nil},
			{"the collection", notAnnounced, del, maps + "?labelSelector=fencepost.dev/lease%3D" + lease, plain, nil},
			{"an announcement by an older token", stale, patch, one, merge, announce(33, "a")},
			{"an announcement by another holder", stale, patch, one, merge, announce(34, "a")},
			{"an announcement", "", patch, one, merge, announce(34, "b")},
			{"the next token's write ends it", "", patch, one, merge, meta(stamp(35, "c"))},
			{"so it is not announced", notAnnounced, del, one, plain, nil},
			{"an announcement", "", patch, one, merge, announce(35, "c")},
			{"again, which changes nothing", "", patch, one, merge, announce(35, "c")},
			{"an unstamped patch cannot change it", notOwn, patch, one, merge, change(maps, 7)},
			{"announced", "", del, one, plain, nil},
			{"an older token creates it again: nothing remembers", "", post, maps, plain, c.object(maps, "doomed", lease, stamp(33, "a"), 0)},
		})
		c.steps(t, announced(one, 33, "a"))
		final := c.object(maps, "final", lease, stamp(34, "b"), 0)
		final["metadata"].(object)["finalizers"] = []string{"example.com/f"}
		free := object{"metadata": object{"finalizers": nil}}
		c.steps(t, []step{
			{"with a finalizer", "", post, maps, plain, final},
			{"its finalizer without a token", notOwn, patch, maps + "/final", merge, free},
		})
		c.steps(t, announced(maps+"/final", 34, "b"))
		c.steps(t, []step{{"another controller's finalizer, when it is deleted", "", patch, maps + "/final", merge, free}})
	})
	t.Run("a namespace is deleted", func(t *testing.T) {
		t.Parallel()
		const space = "/api/v1/namespaces/gone"
		one := space + "/configmaps/left"
		c.steps(t, []step{
			{"", "", post, "/api/v1/namespaces", plain, object{"metadata": object{"name": "gone"}}},
			{"", "", post, space + "/configmaps", plain, c.object(maps, "left", lease, stamp(34, "b"), 0)},
			{"not announced", notAnnounced, del, one, plain, nil},
			{"", "", del, space, plain, nil},
		})
		require.Eventually(t, func() bool { return first(c.send(t, del, one, plain, nil)) == http.StatusOK }, serverproc.Timeout, 50*time.Millisecond)
	})
	t.Run("subresources", func(t *testing.T) {
		t.Parallel()
		one := apps + "/d"
		status := func(n int, metadata object) object {
			return object{"metadata": metadata, "status": object{"replicas": n}}
		}
		with := func(stamp string) object { return object{"annotations": annotations(stamp)} }
		c.steps(t, []step{
			{"", "", post, apps, plain, c.object(apps, "d", lease, stamp(34, "b"), 0)},
			{"another controller's status", "", patch, one + "/status", merge, status(1, object{})},
			{"a stale leader's status", stale, patch, one + "/status", merge, status(2, with(stamp(33, "a")))},
			{"a status that removes the mark", noToken, patch, one + "/status", merge, status(2, object{"annotations": nil})},
			{"a status that forges the mark", noToken, patch, one + "/status", merge, status(2, with("x"))},
			{"the leader's status", "", patch, one + "/status", merge, status(2, with(stamp(34, "b")))},
			{"the next leader's status", "", patch, one + "/status", merge, status(3, with(stamp(35, "c")))},
			{"moves the mark", stale, patch, one, merge, meta(stamp(34, "b"))},
			{"scale", noToken, patch, one + "/scale", merge, object{"spec": object{"replicas": 3}}},
			{"scale with a token", noToken, patch, one + "/scale", merge, object{"metadata": with(stamp(35, "c")), "spec": object{"replicas": 3}}},
			{"", "", post, apps, plain, c.object(apps, "free", "", "", 0)},
			{"scale of an object that is not guarded", noToken, patch, apps + "/free/scale", merge, object{"spec": object{"replicas": 3}}},
			{"another write of one", "", patch, apps + "/free", merge, change(apps, 7)},
			{"", "", post, widgets, plain, c.object(widgets, "w", lease, stamp(34, "b"), 0)},
			{"a stale status of a custom resource, which has no place for it", "", patch, widgets + "/w/status", merge, status(2, with(stamp(33, "a")))},
			{"leaves the mark", stale, patch, widgets + "/w", merge, meta(stamp(33, "a"))},
		})
		const claims = "/api/v1/namespaces/default/persistentvolumeclaims" // labels can be changed through its status
		claim := c.object(maps, "c", lease, stamp(34, "b"), 0)
		claim["kind"], claim["spec"] = "PersistentVolumeClaim", object{"accessModes": []string{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "1"}}}
		delete(claim, "data")
		c.steps(t, []step{
			{"", "", post, claims, plain, claim},
			{"a status that removes the label", otherLease, patch, claims + "/c/status", merge, status(1, object{"labels": nil})},
		})
		// These write annotations too.
		const spaces, requests = "/api/v1/namespaces", "/apis/certificates.k8s.io/v1/certificatesigningrequests"
		_, key, err := ed25519.GenerateKey(nil)
		require.NoError(t, err)
		der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, key)
		require.NoError(t, err)
		request := object{"metadata": c.object("", "r", lease, stamp(34, "b"), 0)["metadata"], "spec": object{
			"signerName": "example.com/s", "usages": []string{"client auth"}, "request": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
		approval := func(metadata object) object {
			return object{"metadata": metadata, "status": object{"conditions": []object{{"type": "Approved", "status": "True", "reason": rand.Text()}}}}
		}
		space := func(stamp string) object { return c.object("", "s", lease, stamp, 0) }
		c.steps(t, []step{
			{"", "", post, requests, plain, request},
			{"a stale leader's approval", stale, patch, requests + "/r/approval", merge, approval(with(stamp(33, "a")))},
			{"another controller's approval", "", patch, requests + "/r/approval", merge, approval(object{})},
			{"the next leader's approval", "", patch, requests + "/r/approval", merge, approval(with(stamp(35, "c")))},
			{"moves the mark", stale, patch, requests + "/r", merge, meta(stamp(34, "b"))},
			{"", "", post, spaces, plain, space(stamp(34, "b"))},
			{"a stale finalization", stale, put, spaces + "/s/finalize", plain, space(stamp(33, "a"))},
			{"the next leader's", "", put, spaces + "/s/finalize", plain, space(stamp(35, "c"))},
			{"moves the mark", stale, patch, spaces + "/s", merge, meta(stamp(34, "b"))},
		})
	})
}

// hazard G48
func TestTheLeaseRemembersTheNumberOfWhatIsGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.install(t, "--resource", "configmaps", "--resource", "deployments.apps", "--lease", "billing", "--lease", "other")
	const post, patch, del = http.MethodPost, http.MethodPatch, http.MethodDelete
	c.steps(t, []step{
		{"without the Lease", "", post, maps, plain, c.object(maps, "old", lease, stamp(33, "a"), 0)},
		{"", "", post, maps, plain, c.object(maps, "announced", lease, lease+" 33 delete a", 0)},
		{"", "", post, apps, plain, c.object(apps, "d", lease, stamp(33, "a"), 0)},
		{"", "", post, "/api/v1/namespaces", plain, object{"metadata": object{"name": "gone"}}},
		{"", "", post, "/api/v1/namespaces/gone/configmaps", plain, c.object(maps, "left", lease, stamp(33, "a"), 0)},
		{"a Lease without a number, as an elector makes it", "", post, leases, plain, object{"metadata": object{"name": "other"}}},
	})
	iss := c.issuer(t, "")
	tok := acquire(t, iss, "billing", "b")
	began := time.Now()
	require.Eventually(t, func() bool {
		_, text := c.send(t, post, maps+"?dryRun=All", plain, c.object(maps, "probe", lease, stamp(33, "a"), 0))
		return strings.Contains(text, behindLease)
	}, serverproc.Timeout, time.Millisecond)
	t.Logf("the server saw the number of the Lease %v after the grant", time.Since(began).Round(time.Millisecond))
	c.steps(t, []step{
		{"a creation", behindLease, post, maps, plain, c.object(maps, "new", lease, stamp(33, "a"), 0)},
		{"a write to what the new holder has not written yet", behindLease, patch, maps + "/old", merge, object{"metadata": object{"annotations": annotations(stamp(33, "a"))}}},
		{"a deletion that an older token has announced", behindLease, del, maps + "/announced", plain, nil},
		{"another controller's status", "", patch, apps + "/d/status", merge, object{"status": object{"replicas": 1}}},
		{"another Lease's object", "", post, maps, plain, c.object(maps, "of-other", "default.other", "default.other 1 n a", 0)},
		{"", "", del, "/api/v1/namespaces/gone", plain, nil},
		{"the holder's creation", "", post, maps, plain, c.object(maps, "new", lease, stamp(tok.Number, "b"), 0)},
		{"the holder's write", "", patch, maps + "/old", merge, object{"metadata": object{"annotations": annotations(stamp(tok.Number, "b"))}}},
		{"the holder's announcement", "", patch, maps + "/new", merge, object{"metadata": object{"annotations": annotations(fmt.Sprintf("%s %d delete b", lease, tok.Number))}}},
		{"the holder's deletion", "", del, maps + "/new", plain, nil},
		{"the Lease is deleted", "", del, leases + "/billing", plain, nil},
		{"the mark still refuses", stale, patch, maps + "/old", merge, object{"metadata": object{"annotations": annotations(stamp(33, "a"))}}},
	})
	next := acquire(t, iss, "billing", "c")
	require.Eventually(t, func() bool {
		return first(c.send(t, del, "/api/v1/namespaces/gone/configmaps/left", plain, nil)) == http.StatusOK
	}, serverproc.Timeout, 50*time.Millisecond, "what is left in a namespace that was deleted")
	require.Greater(t, next.Number, tok.Number)
	require.Eventually(t, func() bool {
		_, text := c.send(t, post, maps+"?dryRun=All", plain, c.object(maps, "probe", lease, stamp(tok.Number, "b"), 0))
		return strings.Contains(text, behindLease)
	}, serverproc.Timeout, time.Millisecond, "the number of the Lease that was made again")
}

package kubernetes_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// What docs/kubernetes.md lists as not fenced, but scale and status.
func TestWhatIsNotFenced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.install(t, "--resource", "configmaps", "--resource", "pods", "--resource", "gadgets.example.com",
		"--resource", "validatingadmissionpolicies.admissionregistration.k8s.io", "--lease", "billing")
	l := c.leader(t, nil)
	const post, put, patch, del = http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	const pods = "/api/v1/namespaces/default/pods"
	mark := func(path string) string {
		t.Helper()
		var o struct{ Metadata metav1.ObjectMeta }
		c.must(t, http.MethodGet, path, nil, &o)
		return o.Metadata.Annotations["fencepost.dev/token"]
	}
	t.Run("subresources of a Pod", func(t *testing.T) {
		t.Parallel()
		c.must(t, post, "/api/v1/namespaces/default/serviceaccounts", object{"metadata": object{"name": "default"}}, nil)
		pod := c.object(pods, "p", lease, stamp(34, "b"), 0)
		pod["spec"] = object{"containers": []object{{"name": "c", "image": "i"}}}
		c.must(t, post, pods, pod, nil)
		before := mark(pods + "/p")
		pod["metadata"].(object)["name"] = "q"
		c.must(t, post, pods, pod, nil)
		of := func(resource string) dynamic.ResourceInterface {
			return l.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace("default")
		}
		old := of("pods")
		binding := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Binding", "metadata": object{"name": "p"}, "target": object{"kind": "Node", "name": "n"}}}
		_, err := old.Create(under(t, 33, "a"), binding, metav1.CreateOptions{}, "binding")
		require.NoError(t, err)
		binding.SetName("q")
		_, err = of("bindings").Create(under(t, 33, "a"), binding, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, before, mark(pods+"/q"))
		_, err = old.Patch(under(t, 33, "a"), "p", types.StrategicMergePatchType, []byte(`{"spec":{"ephemeralContainers":[{"name":"d","image":"i"}]}}`), metav1.PatchOptions{}, "ephemeralcontainers")
		require.NoError(t, err)
		require.Equal(t, before, mark(pods+"/p"), "a Transport puts no token into a binding: it would be the Pod's")
		_, err = old.Create(under(t, 33, "a"), &unstructured.Unstructured{Object: object{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": object{"name": "p"}}}, metav1.CreateOptions{}, "eviction")
		require.NoError(t, err)
	})
	t.Run("an access review has no annotations", func(t *testing.T) {
		t.Parallel()
		_, err := l.dynamic.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}).Create(under(t, 33, "a"),
			&unstructured.Unstructured{Object: object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": object{"resourceAttributes": object{"verb": "get", "resource": "pods"}}}}, metav1.CreateOptions{})
		require.NoError(t, err)
	})
	t.Run("a field that quotes a refusal", func(t *testing.T) {
		t.Parallel()
		refused := configMap("quoting", 0)
		refused.Labels["error"] = stale
		_, err := l.maps.Create(under(t, 33, "a"), refused, metav1.CreateOptions{})
		require.ErrorContains(t, err, stale)
		require.NotErrorIs(t, err, guard.ErrStale)
	})
	t.Run("an earlier stamp of the same leader", func(t *testing.T) {
		t.Parallel()
		backup := c.object(maps, "copied", lease, stamp(34, "b"), 0)
		c.steps(t, []step{
			{"", "", post, maps, plain, backup},
			{"a dry run, which shows that it is guarded", notOwn, patch, maps + "/copied?dryRun=All", merge, object{"metadata": object{"annotations": object{"try": "1"}}}},
			{"a policy, which cannot be", "", patch, policies + "policies/fencepost?dryRun=All", merge, object{"metadata": object{"labels": object{"fencepost.dev/lease": lease}}}},
			{"the leader's next write", "", patch, maps + "/copied", merge, object{"metadata": object{"annotations": annotations(stamp(34, "b"))}, "data": object{"n": "1"}}},
			{"a backup of its time", "", put, maps + "/copied", plain, backup},
			{"the next leader's write", "", patch, maps + "/copied", merge, object{"metadata": object{"annotations": annotations(stamp(35, "c"))}}},
			{"a backup of the earlier leader's time", stale, put, maps + "/copied", plain, backup},
		})
	})
	t.Run("a custom resource", func(t *testing.T) {
		t.Parallel()
		const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		version := func(name string, storage bool, fields ...string) object {
			spec := object{}
			for _, f := range fields {
				spec[f] = object{"type": "integer"}
			}
			return object{"name": name, "served": true, "storage": storage, "schema": object{"openAPIV3Schema": object{
				"type": "object", "properties": object{"spec": object{"type": "object", "properties": spec}}}}}
		}
		c.must(t, post, definitions, object{"metadata": object{"name": "gadgets.example.com"}, "spec": object{
			"group": "example.com", "scope": "Namespaced", "names": object{"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
			"versions": []object{version("v1", false, "a"), version("v2", true, "a", "b")}}}, nil)
		const one, two = "/apis/example.com/v1/namespaces/default/gadgets", "/apis/example.com/v2/namespaces/default/gadgets"
		gadget := func(stamp string) object {
			o := c.object("", "g", lease, stamp, 0)
			o["apiVersion"], o["kind"], o["spec"] = "example.com/v2", "Gadget", object{"a": 1, "b": 1}
			return o
		}
		require.Eventually(t, func() bool {
			_, text := c.send(t, post, two, plain, gadget(""))
			return strings.Contains(text, noToken)
		}, serverproc.Timeout, 50*time.Millisecond)
		c.steps(t, []step{
			{"", "", post, two, plain, gadget(stamp(34, "b"))},
			{"of each version", notOwn, patch, one + "/g", merge, object{"spec": object{"a": 2}}},
			{"of each version", stale, patch, two + "/g", merge, object{"metadata": object{"annotations": annotations(stamp(33, "a"))}, "spec": object{"b": 2}}},
			{"a write that changes nothing in a version without all fields", "", patch, one + "/g", merge, object{"spec": object{"a": 1}}},
		})
		_, text := c.send(t, http.MethodGet, two+"/g", plain, nil)
		require.NotContains(t, text, `"b":`)
		c.steps(t, []step{{"of the definition", "", del, definitions + "/gadgets.example.com", plain, nil}})
		require.Eventually(t, func() bool {
			return first(c.send(t, http.MethodGet, two+"/g", plain, nil)) == http.StatusNotFound
		}, serverproc.Timeout, 50*time.Millisecond)
	})
}

// A refusal of a DELETE judges the number of the last writer, which is not the next leader's.
func TestDeletionsUnderAGreaterNumberOfTheLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.install(t, "--resource", "configmaps", "--lease", "1e3", "--lease", "null", "--lease", "billing")
	for name, stamp := range map[string]string{
		"announced": lease + " 33 delete a", "other": lease + " 33 delete a", "written": stamp(33, "a"),
		"collected-1": "default.free 1 delete a", "collected-2": lease + " 33 delete a",
	} {
		o := c.object(maps, name, strings.Fields(stamp)[0], stamp, 0)
		if strings.HasPrefix(name, "collected") {
			o["metadata"].(object)["labels"].(object)["in"] = "collection"
		}
		c.must(t, http.MethodPost, maps, o, nil)
	}
	tok := acquire(t, c.issuer(t, ""), "billing", "b")
	require.Eventually(t, func() bool {
		_, text := c.send(t, http.MethodPost, maps+"?dryRun=All", plain, c.object(maps, "probe", lease, stamp(33, "a"), 0))
		return strings.Contains(text, behindLease)
	}, serverproc.Timeout, time.Millisecond)
	l, next := c.leader(t, nil), under(t, tok.Number, "b")
	require.NoError(t, l.maps.Delete(next, "announced", metav1.DeleteOptions{}), "by an earlier leader, which has not deleted it")
	written := func() metav1.DeleteOptions {
		o, err := l.maps.Get(next, "written", metav1.GetOptions{})
		require.NoError(t, err)
		return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &o.ResourceVersion}}
	}
	err := l.maps.Delete(next, "written", written())
	require.True(t, apierrors.IsConflict(err), "the announcement raises the version: %v", err)
	require.NoError(t, l.maps.Delete(next, "written", written()))
	require.ErrorIs(t, l.maps.Delete(under(t, 33, "a"), "other", metav1.DeleteOptions{}), guard.ErrStale)
	err = l.maps.Delete(next, "other", metav1.DeleteOptions{DryRun: []string{"All"}})
	require.ErrorContains(t, err, behindLease)
	require.NotErrorIs(t, err, guard.ErrStale)

	// The server deletes a collection one by one.
	err = l.maps.DeleteCollection(next, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "in=collection"})
	require.ErrorContains(t, err, behindLease)
	require.NotErrorIs(t, err, guard.ErrStale, "some may be deleted")
	require.Equal(t, http.StatusNotFound, first(c.send(t, http.MethodGet, maps+"/collected-1", plain, nil)))
}

// client-go sends a request again after a 5xx with a Retry-After, such as a proxy's. The
// write was applied, and a refusal of the second one would say that it was not.
func TestAWriteOfUnknownOutcomeIsNotSentAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.install(t, "--resource", "configmaps", "--lease", "billing")
	b := c.leader(t, nil)
	_, err := b.maps.Create(under(t, 33, "a"), configMap("m", 0), metav1.CreateOptions{})
	require.NoError(t, err)
	config := c.config()
	var sent atomic.Int64
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if sent.Add(1) == 1 && err == nil {
				_, err = b.maps.Patch(under(t, 34, "b"), "m", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
				resp.StatusCode = http.StatusServiceUnavailable
				resp.Header.Set("Retry-After", "1")
			}
			return resp, err
		})
	})
	_, err = c.leaderOf(t, config).maps.Patch(under(t, 33, "a"), "m", types.MergePatchType, mergeOf(1), metav1.PatchOptions{})
	require.Error(t, err)
	require.False(t, guard.IsRefusal(err), "%v", err)
	got, err := b.maps.Get(t.Context(), "m", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "1", got.Data["n"], "it was applied")
	require.EqualValues(t, 1, sent.Load())
}

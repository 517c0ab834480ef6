package kubernetes_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/serverproc"
)

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
	require.NoError(t, l.maps.Delete(next, "written", metav1.DeleteOptions{}))
	require.ErrorIs(t, l.maps.Delete(under(t, 33, "a"), "other", metav1.DeleteOptions{}), guard.ErrStale)
	err := l.maps.Delete(next, "other", metav1.DeleteOptions{DryRun: []string{"All"}})
	require.ErrorContains(t, err, behindLease)
	require.NotErrorIs(t, err, guard.ErrStale)
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

package kubernetes_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencepost/fencepost/guard"
)

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

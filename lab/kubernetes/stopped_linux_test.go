package kubernetes_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/k8stoken"
)

func init() { roles["leader"] = leads }

// election is what the process of a leader gets first.
type election struct {
	URL, Object string
	CA          []byte
}

// late is what it reports: at first when it leads, and then of its writes after it was resumed.
type late struct {
	Number                   int64 // of its token
	Accepted, Refused, Other int
}

const (
	brief    = 500 * time.Millisecond // the ttl of a leader that never renews
	attempts = 3                      // to write after it was resumed
)

// leads acquires the Lease each time it is told to, and reads and writes on and on. It never
// learns that it does not lead any more: the worst leader.
func leads(parent *subprocess.Parent) error {
	var s election
	if err := parent.Receive(&s); err != nil {
		return err
	}
	config := &rest.Config{Host: s.URL, BearerToken: secret, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	core, err := coreclient.NewForConfig(stamping(config))
	if err != nil {
		return err
	}
	maps, iss := core.ConfigMaps("default"), k8stoken.New(k8stoken.Config{URL: s.URL, Client: client})
	parent.Report(late{})
	return subprocess.Each(parent, func(string) error {
		grant, err := iss.Wait(context.Background(), "billing", rand.Text(), brief)
		if err != nil {
			return err
		}
		ctx, l := token.NewContext(context.Background(), grant.Token), late{Number: grant.Token.Number}
		parent.Report(l)
		var resumed atomic.Bool
		go func() {
			_ = parent.Receive(new(string))
			resumed.Store(true)
		}()
		for n := 0; n < attempts; {
			isLate := resumed.Load()
			got, err := maps.Get(ctx, s.Object, metav1.GetOptions{})
			if err != nil {
				return err
			}
			last, _ := strconv.Atoi(got.Data["n"])
			_, err = maps.Patch(ctx, s.Object, types.MergePatchType, mergeOf(last+1), metav1.PatchOptions{})
			switch {
			case !isLate:
				continue
			case err == nil:
				l.Accepted++
			case guard.IsRefusal(err):
				l.Refused++
			default:
				l.Other++
			}
			n++
		}
		parent.Report(l)
		return nil
	})
}

// Leaders are stopped by SIGSTOP at any moment of their work until their Lease has ended and
// the next leader has written. What they write after that is refused. The twin's is accepted.
func TestLeadersStoppedBySIGSTOP(t *testing.T) {
	t.Parallel()
	guarded, free := newCluster(t), newCluster(t)
	guarded.install(t, "--resource", "configmaps", "--lease", "billing")
	const rounds = 10
	stop := func(c *cluster, rounds int) (sum late) {
		l, iss := c.leader(t, nil), c.issuer(t, "")
		g, err := iss.Acquire(t.Context(), "billing", "first", brief)
		require.NoError(t, err)
		_, err = l.maps.Create(token.NewContext(t.Context(), g.Token), configMap("led", 0), metav1.CreateOptions{})
		require.NoError(t, err)
		command, err := subprocess.Self("the leader", "leader")
		require.NoError(t, err)
		p, _, err := subprocess.Open[late](t.Context(), command, election{c.url(), "led", c.ca})
		require.NoError(t, err)
		t.Cleanup(func() { p.End(context.WithoutCancel(t.Context())) })
		for range rounds {
			began, err := p.Ask(t.Context(), "lead")
			require.NoError(t, err)
			time.Sleep(mathrand.N(20 * time.Millisecond))
			require.NoError(t, p.Stop())
			require.NoError(t, p.Stands(t.Context()))
			next, err := iss.Wait(t.Context(), "billing", rand.Text(), brief)
			require.NoError(t, err)
			require.Greater(t, next.Token.Number, began.Number)
			_, err = l.maps.Patch(token.NewContext(t.Context(), next.Token), "led", types.MergePatchType, []byte(`{"data":{"next":"`+fmt.Sprint(next.Token.Number)+`"}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			require.NoError(t, p.Continue())
			ended, err := p.Ask(t.Context(), "resumed")
			require.NoError(t, err)
			sum.Accepted, sum.Refused, sum.Other = sum.Accepted+ended.Accepted, sum.Refused+ended.Refused, sum.Other+ended.Other
		}
		return sum
	}
	fenced := stop(guarded, rounds)
	t.Logf("%d leaders were stopped by SIGSTOP: %d late writes were accepted, %d refused", rounds, fenced.Accepted, fenced.Refused)
	require.Equal(t, late{Refused: rounds * attempts}, fenced)
	require.Equal(t, late{Accepted: attempts}, stop(free, 1))
}

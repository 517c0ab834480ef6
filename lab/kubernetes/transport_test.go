package kubernetes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/k8stoken"
)

// stamping returns a config whose clients write under the token of their context.
func stamping(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/json"
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return k8stoken.Transport{Base: base, Resource: "billing"}
	})
	return config
}

func operate(ctx context.Context, config *rest.Config, lead func(context.Context, coreclient.ConfigMapInterface) error) error {
	client, err := rest.HTTPClientFor(config) // does not stamp the Lease
	if err != nil {
		return err
	}
	core, err := coreclient.NewForConfig(stamping(config))
	if err != nil {
		return err
	}
	maps := core.ConfigMaps("default")
	locks := &lock.Locker{
		Issuer: k8stoken.New(k8stoken.Config{URL: config.Host, Client: client}), TTL: 30 * time.Second,
		Claim: func(ctx context.Context, tok token.Token) error { // before the first read
			_, err := maps.Patch(token.NewContext(ctx, tok), "settings", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		},
	}
	return locks.Hold(ctx, "billing", func(ctx context.Context) error { return lead(ctx, maps) })
}

// An empty patch has a stamp: it is a claim.
func TestAClaimFencesTheObject(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.install(t, "--resource", "configmaps", "--lease", "billing")
	old := c.leader(t, nil)
	_, err := old.maps.Create(under(t, 33, "a"), configMap("settings", 0), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, operate(t.Context(), c.config(), func(ctx context.Context, maps coreclient.ConfigMapInterface) error {
		_, err := old.maps.Patch(under(t, 33, "a"), "settings", types.MergePatchType, mergeOf(1), metav1.PatchOptions{})
		require.ErrorIs(t, err, guard.ErrStale)
		_, err = maps.Update(ctx, configMap("settings", 2), metav1.UpdateOptions{})
		require.NoError(t, err)
		return maps.Delete(ctx, "settings", metav1.DeleteOptions{})
	}))
}

// leader is a program's clients. at is called when a stamped write is about to be sent.
type leader struct {
	maps    coreclient.ConfigMapInterface
	dynamic dynamic.Interface
	http    *http.Client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (c *cluster) leader(t *testing.T, at func(*http.Request)) *leader {
	t.Helper()
	config := c.config()
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if at != nil {
				at(req)
			}
			return base.RoundTrip(req)
		})
	})
	return c.leaderOf(t, config)
}

func (c *cluster) leaderOf(t *testing.T, config *rest.Config) *leader {
	t.Helper()
	config = stamping(config)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	core, err := coreclient.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	dyn, err := dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return &leader{core.ConfigMaps("default"), dyn, client}
}

// under returns the test's context with a token.
func under(t *testing.T, number int64, holder string) context.Context {
	t.Helper()
	tok, err := token.New("billing", number, holder)
	require.NoError(t, err)
	return token.NewContext(t.Context(), tok)
}

func configMap(name string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"fencepost.dev/lease": lease}},
		Data:       map[string]string{"n": strconv.Itoa(n)},
	}
}

func mergeOf(n int) []byte { return fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n) }

var widgetKind = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// writes are how programs write, by client-go's typed and dynamic clients. Each makes the
// object if need be.
var writes = map[string]func(ctx context.Context, l *leader, name string, n int) error{
	"update": func(ctx context.Context, l *leader, name string, n int) error {
		_, err := l.maps.Update(ctx, configMap(name, n), metav1.UpdateOptions{})
		return err
	},
	"merge patch": func(ctx context.Context, l *leader, name string, n int) error {
		_, err := l.maps.Patch(ctx, name, types.MergePatchType, mergeOf(n), metav1.PatchOptions{})
		return err
	},
	"strategic merge patch": func(ctx context.Context, l *leader, name string, n int) error {
		_, err := l.maps.Patch(ctx, name, types.StrategicMergePatchType, mergeOf(n), metav1.PatchOptions{})
		return err
	},
	"apply": func(ctx context.Context, l *leader, name string, n int) error {
		o := coreapply.ConfigMap(name, "default").WithLabels(map[string]string{"fencepost.dev/lease": lease}).WithData(map[string]string{"n": strconv.Itoa(n)})
		_, err := l.maps.Apply(ctx, o, metav1.ApplyOptions{FieldManager: "m", Force: true})
		return err
	},
	"dynamic apply": func(ctx context.Context, l *leader, name string, n int) error {
		o := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": object{"name": name, "labels": object{"fencepost.dev/lease": lease}}, "data": object{"n": strconv.Itoa(n)}}}
		_, err := l.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default").Apply(ctx, name, o, metav1.ApplyOptions{FieldManager: "m", Force: true})
		return err
	},
	"delete": func(ctx context.Context, l *leader, name string, _ int) error {
		return l.maps.Delete(ctx, name, metav1.DeleteOptions{})
	},
}

// Each leader is paused between its reading and its write: above the transport, or under it,
// when the write is stamped and on its way. Its successor writes, and then it goes on.
//
// hazards G45, G46
func TestStoppedLeaders(t *testing.T) {
	t.Parallel()
	guarded, free := newCluster(t), newCluster(t)
	guarded.install(t, "--resource", "configmaps", "--lease", "billing")
	const each = 10 // for each of the writes, and each place of the pause
	stopped, accepted, twins := 0, 0, 0
	var mu sync.Mutex
	count := func(into *int, n int) {
		mu.Lock()
		defer mu.Unlock()
		*into += n
	}
	t.Run("leaders", func(t *testing.T) {
		for how, write := range writes {
			for _, under := range []bool{false, true} {
				t.Run(fmt.Sprint(how, ", under the transport ", under), func(t *testing.T) {
					t.Parallel()
					for n := range each {
						name := strings.ReplaceAll(fmt.Sprint(how, "-", under, "-", n), " ", "-")
						took, err := guarded.stop(t, name, write, under)
						require.ErrorIs(t, err, guard.ErrStale, how)
						require.True(t, guard.IsRefusal(err), how)
						count(&stopped, 1)
						count(&accepted, map[bool]int{true: 1}[took])
						took, err = free.stop(t, name, write, under)
						require.NoError(t, err, how)
						count(&twins, map[bool]int{true: 1}[took])
					}
				})
			}
		}
	})
	t.Logf("%d stopped leaders: %d stale writes were accepted, and %d of the twins'", stopped, accepted, twins)
	require.Zero(t, accepted)
	require.Equal(t, stopped, twins)
}

// stop pauses a leader in its write, lets the next one write, and goes on. It reports whether
// the object has lost what the next one has written.
func (c *cluster) stop(t *testing.T, name string, write func(context.Context, *leader, string, int) error, below bool) (lost bool, err error) {
	t.Helper()
	paused, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	pause := func(*http.Request) {
		once.Do(func() {
			close(paused)
			<-resume
		})
	}
	at := pause
	if !below {
		at = nil
	}
	// The previous holder's number has the same count of digits, or one less.
	old, next := int64(99), int64(100)
	a, b := c.leader(t, at), c.leader(t, nil)
	_, err = b.maps.Create(under(t, old, "a"), configMap(name, 0), metav1.CreateOptions{})
	require.NoError(t, err)
	done, older := make(chan error, 1), under(t, old, "a")
	go func() {
		if !below {
			pause(nil)
		}
		done <- write(older, a, name, 1)
	}()
	within(t, paused, "the leader does not come to its write")
	_, err = b.maps.Patch(under(t, next, "b"), name, types.MergePatchType, mergeOf(2), metav1.PatchOptions{})
	require.NoError(t, err)
	close(resume)
	err = within(t, done, "the leader hangs")
	got, absent := b.maps.Get(t.Context(), name, metav1.GetOptions{})
	return absent != nil || got.Data["n"] != "2", err
}

// history returns the numbers of each version of an object, in the order of the versions.
func (c *cluster) history(t *testing.T, name, since, until string) (numbers []int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url()+maps+"?watch=1&fieldSelector=metadata.name%3D"+name+"&resourceVersion="+since, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	r, err := c.http.Do(req)
	require.NoError(t, err)
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		var event struct{ Object corev1.ConfigMap }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event))
		number, err := strconv.ParseInt(strings.Fields(event.Object.Annotations["fencepost.dev/token"])[1], 10, 64)
		require.NoError(t, err)
		numbers = append(numbers, number)
		if event.Object.ResourceVersion == until {
			return numbers
		}
	}
	t.Fatal("the watch has ended")
	return nil
}

// Sixteen clients of two API servers race by 400 patches under numbers that rise, but each
// client's last one, which is late: so those of the twin must fall.
func TestRacingPatches(t *testing.T) {
	t.Parallel()
	const clients, each = 16, 25
	race := func(t *testing.T, servers ...*cluster) (falls, refused int) {
		t.Helper()
		created, err := servers[0].leader(t, nil).maps.Create(under(t, 1, "first"), configMap("raced", 0), metav1.CreateOptions{})
		require.NoError(t, err)
		var all sync.WaitGroup
		var mu sync.Mutex
		for n := range clients {
			l := servers[n%len(servers)].leader(t, nil)
			all.Go(func() {
				for m := range each {
					if m == each-1 {
						m = 0 // a late one
					}
					number := 2 + m*clients + n // of one holder
					_, err := l.maps.Patch(under(t, int64(number), fmt.Sprint("h", number)), "raced", types.MergePatchType, mergeOf(number), metav1.PatchOptions{})
					if err == nil {
						continue
					}
					if !guard.IsRefusal(err) {
						t.Error(err)
					}
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		last, err := servers[0].leader(t, nil).maps.Patch(under(t, 1000, "last"), "raced", types.MergePatchType, mergeOf(0), metav1.PatchOptions{})
		require.NoError(t, err)
		numbers := servers[0].history(t, "raced", created.ResourceVersion, last.ResourceVersion)
		for i := 1; i < len(numbers); i++ {
			if numbers[i] < numbers[i-1] {
				falls++
			}
		}
		require.Equal(t, clients*each-refused+1, len(numbers))
		return falls, refused
	}
	guarded := newCluster(t)
	guarded.install(t, "--resource", "configmaps", "--lease", "billing")
	falls, refused := race(t, guarded, guarded.second(t))
	t.Logf("%d patches, %d refused: numbers fell %d times", clients*each, refused, falls)
	require.Zero(t, falls)
	require.NotZero(t, refused)
	free := newCluster(t)
	falls, refused = race(t, free, free.second(t))
	t.Logf("the twin: %d patches, %d refused: numbers fell %d times", clients*each, refused, falls)
	require.NotZero(t, falls)
	require.Zero(t, refused)
}

// A reconciler writes the same again and again.
func TestUnchangedObjectsAreNotWritten(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.define(t)
	c.install(t, "--resource", "configmaps", "--resource", "deployments.apps", "--resource", "widgets.example.com", "--lease", "billing")
	l, ctx := c.leader(t, nil), under(t, 33, "a")
	const times = 20
	version := func(o metav1.Object, err error) string {
		t.Helper()
		require.NoError(t, err)
		return fmt.Sprint(o.GetResourceVersion(), "/", o.GetGeneration())
	}
	same := func(what string, write func() error, read func() string) {
		t.Helper()
		require.NoError(t, write(), what)
		first := read()
		for range times {
			require.NoError(t, write(), what)
			require.Equal(t, first, read(), what)
		}
	}
	for how, write := range writes {
		if how == "delete" {
			continue
		}
		name := strings.ReplaceAll(how, " ", "-")
		_, err := l.maps.Create(ctx, configMap(name, 0), metav1.CreateOptions{})
		require.NoError(t, err)
		same(how, func() error { return write(ctx, l, name, 1) }, func() string { return version(l.maps.Get(ctx, name, metav1.GetOptions{})) })
	}
	for path, kind := range map[string]schema.GroupVersionResource{apps: {Group: "apps", Version: "v1", Resource: "deployments"}, widgets: widgetKind} {
		objects := l.dynamic.Resource(kind).Namespace("default")
		o := func() *unstructured.Unstructured {
			j, _ := json.Marshal(c.object(path, "o", lease, "", 1))
			var u unstructured.Unstructured
			require.NoError(t, json.Unmarshal(j, &u.Object))
			return &u
		}
		read := func() string { return version(objects.Get(ctx, "o", metav1.GetOptions{})) }
		same("apply", func() error {
			_, err := objects.Apply(ctx, "o", o(), metav1.ApplyOptions{FieldManager: "m", Force: true})
			return err
		}, read)
		// The object that was read has a version, a status and the stamp of the last write.
		same("read and update", func() error {
			got, err := objects.Get(ctx, "o", metav1.GetOptions{})
			require.NoError(t, err)
			_, err = objects.Update(ctx, got, metav1.UpdateOptions{})
			return err
		}, read)
		same("status", func() error {
			_, err := objects.Patch(ctx, "o", types.MergePatchType, []byte(`{"status":{"replicas":1}}`), metav1.PatchOptions{}, "status")
			return err
		}, read)
		// Another controller's status is no reason for the leader's next update to be a write.
		require.Equal(t, http.StatusOK, first(c.send(t, http.MethodPatch, path+"/o/status", merge, object{"status": object{"observedGeneration": 7}})))
		got, err := objects.Get(ctx, "o", metav1.GetOptions{})
		require.NoError(t, err)
		before := read()
		_, err = objects.Update(ctx, got, metav1.UpdateOptions{})
		require.NoError(t, err)
		if path == widgets { // its stamp is still that of an update
			require.Equal(t, before, read())
		}
	}
}

// What the policy does not see, such as an edit through scale, is followed by the leader's same
// write again. A stale leader gets no second chance by that.
func TestTheSameWriteAfterAnEditThatThePolicyDidNotSee(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.install(t, "--resource", "deployments.apps", "--resource", "configmaps", "--lease", "billing")
	l, ctx := c.leader(t, nil), under(t, 33, "a")
	objects := l.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	write := func(ctx context.Context) error {
		o := c.object(apps, "o", lease, "", 1)
		o["spec"].(object)["replicas"] = int64(1)
		j, _ := json.Marshal(o)
		_, err := objects.Patch(ctx, "o", types.ApplyPatchType, j, metav1.PatchOptions{FieldManager: "m", Force: new(true)})
		return err
	}
	replicas := func() int64 {
		got, err := objects.Get(ctx, "o", metav1.GetOptions{})
		require.NoError(t, err)
		n, _, err := unstructured.NestedInt64(got.Object, "spec", "replicas")
		require.NoError(t, err)
		return n
	}
	scale := func(n int) {
		require.Equal(t, http.StatusOK, first(c.send(t, http.MethodPatch, apps+"/o/scale", merge, object{"spec": object{"replicas": n}})))
	}
	require.NoError(t, write(ctx))
	scale(3)
	require.NoError(t, write(ctx))
	require.EqualValues(t, 1, replicas())
	scale(3)
	_, err := objects.Patch(under(t, 34, "b"), "o", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":5}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, write(ctx), guard.ErrStale)
	require.EqualValues(t, 3, replicas())

	_, err = objects.Patch(under(t, 34, "b"), "o", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}, "scale")
	require.ErrorContains(t, err, "k8stoken: PATCH "+apps+"/o/scale: the subresource scale cannot carry a token")
	_, err = objects.Patch(under(t, 34, "b"), "o", types.JSONPatchType, []byte(`[]`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "cannot carry a token: send JSON")
	_, err = objects.Patch(t.Context(), "o", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":6}}`), metav1.PatchOptions{})
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.NotErrorIs(t, err, guard.ErrStale)

	// Deletions: of a guarded object in a dry run, and of one that is not guarded.
	err = objects.Delete(under(t, 34, "b"), "o", metav1.DeleteOptions{DryRun: []string{"All"}})
	require.ErrorContains(t, err, notAnnounced)
	require.ErrorContains(t, objects.Delete(t.Context(), "o", metav1.DeleteOptions{}), notAnnounced, "nothing has announced it")
	foreground := metav1.DeletePropagationForeground
	require.NoError(t, objects.Delete(under(t, 34, "b"), "o", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	err = l.maps.Delete(under(t, 34, "b"), "none", metav1.DeleteOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

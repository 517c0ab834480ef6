package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/slowlink"
)

func TestMain(m *testing.M) {
	slowlink.ServeIfAsked() // a relay runs this binary
	pairs, waiters, block, fewest, repeats, settled = 6, 3, 0, 4, 1, time.Second
	leaktest.Main(m)
}

// The program is run on the two engines whose servers the tests have. Each column of theirs
// has a value, and each lock excludes.
func TestEverythingIsMeasured(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, measure(t.Context(), []string{"etcd", "nats"}, &out))
	const one, two = `( \| [\d.]+)`, `( \| -?[\d.]+ · -?[\d.]+)`
	for _, rows := range []string{
		"etcdtoken`" + one + "{3} \\|\n.*concurrency.Mutex`" + one + "{3} \\|\n.*ratio" + one + "{3} \\|\n.*natstoken`" + one + "{3} \\|\n",
		"etcdtoken`" + two + "{3} \\|\n.*concurrency.Mutex`" + two + "{2} \\|  \\|\n.*ratio" + one + "{2} \\|  \\|\n.*natstoken`" + two + "{3} \\|\n",
		"etcdtoken`" + two + "{2} \\|\n.*concurrency.Mutex`" + two + "{2} \\|\n.*ratio( \\| -?[\\d.]+){2} \\|\n.*natstoken`" + two + "{2} \\|\n",
		"etcdtoken`" + two + "{4} \\|\n.*natstoken`" + two + "{4} \\|\n",
		"etcdtoken`" + one + " \\|\n.*natstoken`" + one + " \\|\n",
	} {
		require.Regexp(t, regexp.MustCompile(rows), out.String())
	}
}

func TestTheSwapsOfAnIssuerAreCounted(t *testing.T) {
	t.Parallel()
	e := &env{}
	defer e.close()
	e.server = startEtcd(e)
	p := e.process(&e.closers, e.addr, long)
	l, err := issued(etcd)(p)(t.Context(), "account/42")
	require.NoError(t, err)
	require.NoError(t, l.release(t.Context()))
	require.Equal(t, [2]float64{2, 0}, e.swaps.read())
	_, err = issued(etcd)(e.process(&e.closers, e.addr, long))(t.Context(), "account/42")
	require.NoError(t, err)
	require.NoError(t, must(issued(etcd)(p)(t.Context(), "account/7")).release(t.Context()))
	require.Error(t, l.renew(t.Context()), "it was released")
	require.Equal(t, 1.0, e.swaps.read()[1], "from the entry before the other process's")
}

func TestOneFailureEndsAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := func() (err error) {
		defer rescue(&err)
		each(t.Context(), 3, func(ctx context.Context, i int) {
			if i == 1 {
				check(broken)
			}
			<-ctx.Done()
		})
		return nil
	}()
	require.ErrorIs(t, err, broken)
	require.EqualError(t, measure(t.Context(), []string{"redis"}, io.Discard), `no engine "redis"`)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	require.ErrorIs(t, measure(ctx, []string{"etcd"}, io.Discard), broken)
}

func TestAMissingServerIsNamed(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	for name, how := range map[string]string{
		"zookeeper": "apt-get install zookeeper", "consul": "FENCEPOST_CONSUL=$(scripts/consul)", "kubernetes": "FENCEPOST_KUBERNETES=$(scripts/kubernetes)",
	} {
		t.Setenv("FENCEPOST_CONSUL", "")
		t.Setenv("FENCEPOST_KUBERNETES", "")
		require.ErrorContains(t, measure(t.Context(), []string{name}, io.Discard), how)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for text, x := range map[string]float64{"0.000": 0, "0.012": 0.012, "1.23": 1.234, "12.3": 12.34, "1235": 1234.6, "-0.250": -0.25} {
		require.Equal(t, text, number(x))
	}
}

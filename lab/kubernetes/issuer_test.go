package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/k8stoken"
)

// The role is the one of the package's documentation.
func TestIssuerOnKubernetes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.account(t, "locks", "get", "watch", "create", "patch", "list")
	file := filepath.Join(t.TempDir(), "token")
	c.writeToken(t, file, "locks", "")
	for _, n := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d processes", n), func(t *testing.T) {
			t.Parallel()
			registertest.TestIssuer(t, n, func(t *testing.T, _ int) register.Interface { t.Helper(); return c.issuer(t, file) },
				func(_ context.Context, resource string) error {
					c.must(t, http.MethodDelete, leases+"/"+c.leaseOf(t, resource), nil, nil)
					return nil
				})
		})
	}
}

// leaseOf returns the name of the Lease of a resource.
func (c *cluster) leaseOf(t *testing.T, resource string) string {
	t.Helper()
	for _, row := range c.table(t) {
		if row.Object.Metadata.Annotations["fencepost.dev/resource"] == resource {
			return row.Object.Metadata.Name
		}
	}
	t.Fatalf("no Lease has the resource %q", resource)
	return ""
}

// row is a line of `kubectl get leases`, and the metadata of the Lease.
type row struct {
	Cells  []any // of the columns name, holder, age
	Object struct {
		Metadata struct {
			Name        string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func (c *cluster) table(t *testing.T) []row {
	t.Helper()
	var reply struct{ Rows []row }
	c.must(t, http.MethodGet, leases, nil, &reply)
	return reply.Rows
}

func acquire(t *testing.T, iss token.Issuer, resource, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, long)
	require.NoError(t, err)
	return grant.Token
}

func TestLeases(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	t.Run("the Leases of all legal names are different and are listed", func(t *testing.T) {
		t.Parallel()
		registertest.TestNames(t, func() register.Interface { return c.issuer(t, "") })
		for _, name := range []string{"a", "a.b", "my-operator.example.com"} {
			require.Equal(t, name, c.leaseOf(t, name))
		}
		require.Regexp(t, `^a-b\.fencepost-[0-9a-f]{24}$`, c.leaseOf(t, "a/b"))
	})
	t.Run("kubectl get leases shows the holder", func(t *testing.T) {
		t.Parallel()
		iss := c.issuer(t, "")
		tok := acquire(t, iss, "shown", "billing-7d4b9")
		holder := func() (cells []any) {
			for _, row := range c.table(t) {
				if row.Cells[0] == "shown" {
					require.Equal(t, fmt.Sprint(tok.Number), row.Object.Metadata.Annotations["fencepost.dev/number"])
					cells = row.Cells
				}
			}
			return cells
		}
		require.Equal(t, "billing-7d4b9", holder()[1])
		require.NoError(t, iss.Release(t.Context(), tok))
		require.Equal(t, "", holder()[1])
	})
	t.Run("what other programs have written on a Lease stays", func(t *testing.T) {
		t.Parallel()
		c.must(t, http.MethodPost, leases, object{"metadata": object{
			"name": "foreign", "labels": object{"app": "billing"}, "annotations": object{"example.com/a": "1"}}}, nil)
		iss := c.issuer(t, "")
		tok := acquire(t, iss, "foreign", "h")
		_, err := iss.Renew(t.Context(), tok, long)
		require.NoError(t, err)
		for _, row := range c.table(t) {
			if row.Cells[0] == "foreign" {
				require.Equal(t, "h", row.Cells[1])
				require.Equal(t, map[string]string{"app": "billing"}, row.Object.Metadata.Labels)
				require.Equal(t, "1", row.Object.Metadata.Annotations["example.com/a"])
			}
		}
	})
	t.Run("a Lease that is deleted under its holder", func(t *testing.T) {
		t.Parallel()
		a, b := c.issuer(t, ""), c.issuer(t, "")
		old := acquire(t, a, "deleted", "a")
		c.must(t, http.MethodDelete, leases+"/deleted", nil, nil)
		_, err := a.Renew(t.Context(), old, long)
		require.ErrorIs(t, err, token.ErrLost)
		second := acquire(t, b, "deleted", "b")
		require.Greater(t, second.Number, old.Number)
		c.must(t, http.MethodDelete, leases+"/deleted", nil, nil)
		third := acquire(t, a, "deleted", "a")
		require.Greater(t, third.Number, second.Number)
		require.ErrorIs(t, b.Release(t.Context(), second), token.ErrLost)
		_, err = a.Renew(t.Context(), third, long)
		require.NoError(t, err)
	})
	t.Run("a waiter is served if the Lease is deleted", func(t *testing.T) {
		t.Parallel()
		old := acquire(t, c.issuer(t, ""), "waited", "a")
		iss := c.issuer(t, "")
		granted := make(chan token.Grant, 1)
		go func() {
			if g, err := iss.Wait(t.Context(), "waited", "b", long); err == nil {
				granted <- g
			}
		}()
		awaitWaiters(t, iss, "waited", 1)
		c.must(t, http.MethodDelete, leases+"/waited", nil, nil)
		select {
		case g := <-granted:
			require.Greater(t, g.Token.Number, old.Number)
		case <-time.After(serverproc.Timeout):
			t.Fatal("the waiter waits for a Lease that is gone")
		}
	})
	t.Run("the annotation of another program is an error that names the Lease", func(t *testing.T) {
		t.Parallel()
		c.must(t, http.MethodPost, leases, object{"metadata": object{
			"name": "broken", "annotations": object{"fencepost.dev/record": "x"}}}, nil)
		_, err := c.issuer(t, "").Acquire(t.Context(), "broken", "h", long)
		require.ErrorContains(t, err, "k8stoken: the annotation fencepost.dev/record of the Lease broken: ")
		require.NotErrorIs(t, err, token.ErrUnreachable)
	})
}

func awaitWaiters(t *testing.T, iss token.Inspector, resource string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, err := iss.Inspect(t.Context(), resource)
		return err == nil && len(state.Waiters) == n
	}, serverproc.Timeout, 5*time.Millisecond)
}

func TestRights(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	folder := t.TempDir()
	with := func(name string, verbs ...string) *k8stoken.Issuer {
		c.account(t, name, verbs...)
		c.writeToken(t, filepath.Join(folder, name), name, "")
		return c.issuer(t, filepath.Join(folder, name))
	}
	refused := func(err error, text string) {
		t.Helper()
		require.ErrorContains(t, err, "k8stoken: ")
		require.ErrorContains(t, err, text)
		require.NotErrorIs(t, err, token.ErrUnreachable)
		require.NotErrorIs(t, err, token.ErrHeld)
	}
	full := with("full", "get", "watch", "create", "patch")
	held := acquire(t, full, "held", "h")
	for missing, verbs := range map[string][]string{
		"get":    {"watch", "create", "patch"},
		"create": {"get", "watch", "patch"},
		"patch":  {"get", "watch", "create"},
	} {
		iss := with("no-"+missing, verbs...)
		_, err := iss.Acquire(t.Context(), "new-"+missing, "h", long)
		if missing != "patch" {
			refused(err, `cannot `+missing+` resource "leases"`)
			continue
		}
		require.NoError(t, err)
		_, err = iss.Renew(t.Context(), held, long)
		refused(err, `cannot patch resource "leases"`)
	}
	for _, err := range full.Locks(t.Context(), "") {
		refused(err, `cannot list resource "leases"`)
	}

	blind := with("no-watch", "get", "create", "patch")
	served := make(chan error, 1)
	go func() {
		_, err := blind.Wait(t.Context(), "held", "w", long)
		served <- err
	}()
	awaitWaiters(t, full, "held", 1)
	require.NoError(t, full.Release(t.Context(), held))
	require.NoError(t, <-served, "without its watch, a waiter polls")

	bad := filepath.Join(folder, "bad")
	require.NoError(t, os.WriteFile(bad, []byte("bad"), 0o600))
	_, err := c.issuer(t, bad).Acquire(t.Context(), "new", "h", long)
	refused(err, "401 Unauthorized")
	_, err = c.issuer(t, filepath.Join(folder, "none")).Acquire(t.Context(), "new", "h", long)
	refused(err, "no such file")
	admin := filepath.Join(folder, "admin")
	require.NoError(t, os.WriteFile(admin, []byte(secret), 0o600))
	_, err = k8stoken.New(k8stoken.Config{URL: c.url(), Namespace: "none", TokenFile: admin, Client: c.client(t)}).Acquire(t.Context(), "new", "h", long)
	refused(err, `namespaces "none" not found`)
	_, err = k8stoken.New(k8stoken.Config{URL: c.url(), TokenFile: admin}).Acquire(t.Context(), "new", "h", long)
	refused(err, "certificate")
}

// The kubelet replaces the token's file before the token expires.
func TestATokenIsRotatedUnderALiveHolder(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.account(t, "locks", "get", "watch", "create", "patch")
	const secrets = "/api/v1/namespaces/default/secrets"
	for _, name := range []string{"first", "second"} {
		c.must(t, http.MethodPost, secrets, object{"metadata": object{"name": name}}, nil)
	}
	file := filepath.Join(t.TempDir(), "token")
	c.writeToken(t, file, "locks", "first")
	iss := c.issuer(t, file)
	tok := acquire(t, iss, "rotated", "h")
	c.must(t, http.MethodDelete, secrets+"/first", nil, nil)
	var err error
	require.Eventually(t, func() bool { // the server remembers for seconds that a token was valid
		_, err = iss.Renew(t.Context(), tok, long)
		return err != nil
	}, serverproc.Timeout, 100*time.Millisecond)
	require.ErrorContains(t, err, "401 Unauthorized")
	require.NotErrorIs(t, err, token.ErrLost)
	require.NotErrorIs(t, err, token.ErrUnreachable)
	c.writeToken(t, file, "locks", "second")
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
}

func TestAServerThatIsDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	iss := c.issuer(t, "")
	tok := acquire(t, iss, "held", "h")
	waited, waiter := make(chan error, 1), c.issuer(t, "")
	go func() {
		_, err := waiter.Wait(t.Context(), "held", "w", long)
		waited <- err
	}()
	awaitWaiters(t, iss, "held", 1)
	unreachable := func() {
		t.Helper()
		_, err := iss.Renew(t.Context(), tok, long)
		require.ErrorIs(t, err, token.ErrUnreachable)
		require.ErrorContains(t, err, "k8stoken: ")
		_, err = iss.Acquire(t.Context(), "other", "h", long)
		require.ErrorIs(t, err, token.ErrUnreachable)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the caller's own")
		cancel(cause)
		_, err = iss.Renew(ctx, tok, long)
		require.ErrorIs(t, err, cause)
	}
	c.etcd.Kill()
	unreachable()
	require.NoError(t, c.etcd.Restart())
	c.await(t)
	_, err := iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
	c.api.Kill()
	unreachable()
	require.NoError(t, c.api.Restart())
	c.await(t)
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
	select {
	case err := <-waited:
		require.ErrorIs(t, err, token.ErrUnreachable, "a Wait ends with the outage, or goes on")
	default:
		require.NoError(t, iss.Release(t.Context(), tok))
		require.NoError(t, <-waited)
	}
}

// hazard L17
func TestARestoreOfTheClusterUnderALiveHolder(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.issuer(t, ""), c.issuer(t, "")
	restart := func(script string) {
		t.Helper()
		c.api.Kill()
		c.etcd.Kill()
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = c.etcd.Folder
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.NoError(t, c.etcd.Restart())
		require.NoError(t, c.api.Restart())
		c.await(t)
	}
	// One Lease is in the backup, and free. The other is not.
	free := acquire(t, a, "old", "a")
	require.NoError(t, a.Release(t.Context(), free))
	restart("cp -a data backup")
	held := map[string]token.Token{"old": acquire(t, a, "old", "a"), "new": acquire(t, a, "new", "a")}
	restart("rm -rf data && cp -a backup data")
	for resource, tok := range held {
		next := acquire(t, b, resource, "b")
		require.Greater(t, next.Number, tok.Number, resource)
		_, err := a.Renew(t.Context(), tok, long)
		require.ErrorIs(t, err, token.ErrLost, resource)
		_, err = b.Renew(t.Context(), next, long)
		require.NoError(t, err, resource)
	}
}

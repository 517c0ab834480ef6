package natstoken_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/natstoken"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// rights are those that the package comment names.
const rights = `publish: ["$KV.fencepost.>", "$JS.FC.KV_fencepost.>", "$JS.API.STREAM.INFO.KV_fencepost", "$JS.API.STREAM.MSG.GET.KV_fencepost",
	"$JS.API.CONSUMER.CREATE.KV_fencepost.>", "$JS.API.CONSUMER.DELETE.KV_fencepost.>"], subscribe: "_INBOX.>"`

func TestAuthentication(t *testing.T) {
	t.Parallel()
	users := func(app string) string {
		return fmt.Sprintf(`authorization: { users: [ {user: admin, password: a},
			{user: app, password: %q, permissions: {%s}},
			{user: reader, password: r, permissions: {publish: ["$JS.API.STREAM.INFO.>", "$JS.API.STREAM.MSG.GET.>"], subscribe: "_INBOX.>"}} ] }`, app, rights)
	}
	s := start(t, users("p"))
	_ = issuer(t, s.addr(), nats.UserInfo("admin", "a"))
	open := func(user, password string, options ...nats.Option) *natstoken.Issuer {
		_, js := connect(t, s.addr(), append(options, nats.UserInfo(user, password))...)
		kv, err := js.KeyValue(t.Context(), "fencepost")
		require.NoError(t, err)
		return natstoken.New(js, kv)
	}
	_, err := nats.Connect(s.addr(), nats.UserInfo("app", "wrong"))
	require.ErrorIs(t, err, nats.ErrAuthorization)

	closed := make(chan bool)
	app := open("app", "p", nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	registertest.TestHandOver(t, app, open("app", "p"), nil)
	reader := open("reader", "r")
	_, err = reader.Inspect(t.Context(), resource)
	require.NoError(t, err)
	_, err = reader.Acquire(t.Context(), "other", "h", long)
	require.ErrorContains(t, err, `Permissions Violation for Publish to "$KV.fencepost.other"`)
	require.NotErrorIs(t, err, token.ErrUnreachable)

	s.settings = users("changed")
	s.restart()
	<-closed // by the client, when the new password was refused twice
	_, err = app.Acquire(t.Context(), resource, "h", long)
	require.ErrorContains(t, err, "natstoken: nats: connection closed")
	require.NotErrorIs(t, err, token.ErrUnreachable)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := serverproc.Certificate(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	s := start(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", cert, key, cert))
	iss := issuer(t, s.addr(), nats.RootCAs(cert), nats.ClientCert(cert, key))
	registertest.TestHandOver(t, iss, iss, nil)

	var untrusted *tls.CertificateVerificationError
	_, err = nats.Connect("tls://"+s.addr(), nats.Secure(&tls.Config{Certificates: []tls.Certificate{pair}}))
	require.ErrorAs(t, err, &untrusted)
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	down, up := make(chan bool, 10), make(chan bool, 10)
	iss := issuer(t, s.addr(), nats.DisconnectErrHandler(func(*nats.Conn, error) { down <- true }), nats.ReconnectHandler(func(*nats.Conn) { up <- true }))
	tok := acquire(t, iss, "h")

	s.send("STOP")
	began := time.Now()
	_, err := iss.Renew(t.Context(), tok, long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.Less(t, time.Since(began), time.Minute)
	for _, err := range iss.Locks(t.Context(), "") {
		require.ErrorIs(t, err, token.ErrUnreachable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = iss.Renew(ctx, tok, long)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, token.ErrUnreachable)
	s.send("CONT")
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)

	s.Kill()
	<-down
	_, err = iss.Renew(t.Context(), tok, long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.ErrorContains(t, err, "natstoken: ")
	require.ErrorIs(t, err, nats.ErrConnectionReconnecting, "and nothing is sent later")
	s.restart()
	<-up
	locker := lock.Locker{Issuer: iss, TTL: long, WaitTimeout: time.Minute, Claim: func(context.Context, token.Token) error { return nil }}
	require.NoError(t, locker.Hold(t.Context(), "other", func(context.Context) error { return nil }))
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err, "the record is on disk")
}

// hazard L17
func TestABucketIsDeletedUnderALiveHolder(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	_, js := connect(t, s.addr())
	a, b := issuer(t, s.addr()), issuer(t, s.addr())
	version := func(iss *natstoken.Issuer) string {
		e, err := natstoken.StoreOf(iss).Load(t.Context(), resource)
		require.NoError(t, err)
		return e.Version
	}
	old := acquire(t, a, "a")
	before := version(a)
	require.NoError(t, js.DeleteKeyValue(t.Context(), "fencepost"))
	_, err := a.Renew(t.Context(), old, long)
	require.ErrorContains(t, err, "stream not found")
	_ = bucket(t, js, jetstream.KeyValueConfig{})
	tok := acquire(t, b, "b")
	require.Equal(t, before, version(b), "this test must force a revision that repeats")
	require.Greater(t, tok.Number, old.Number)
	_, err = a.Renew(t.Context(), old, long)
	require.ErrorIs(t, err, token.ErrLost)
	_, err = b.Renew(t.Context(), tok, long)
	require.NoError(t, err)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	conn, js := connect(t, s.addr())
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	store := natstoken.StoreOf(natstoken.New(js, kv))
	write := func(old string, number int64) string {
		e, swapped, err := store.Swap(t.Context(), resource, old, register.Record{Number: number})
		require.NoError(t, err)
		require.True(t, swapped)
		return e.Version
	}
	stream, err := js.Stream(t.Context(), "KV_fencepost")
	require.NoError(t, err)
	consumers := func(n int) func() bool {
		return func() bool {
			info, err := stream.Info(t.Context())
			return err == nil && info.State.Consumers == n
		}
	}
	registertest.TestStore(t, store, func(key string) { require.NoError(t, kv.Delete(t.Context(), register.Name(key))) }, consumers(1))
	type event struct {
		e   register.Entry
		err error
	}
	watch := func(ctx context.Context, seen string) chan event {
		require.Eventually(t, consumers(0), time.Minute, time.Millisecond) // another's would be taken for its own
		events := make(chan event, 1)
		go func() {
			e, err := store.Watch(ctx, resource, seen)
			events <- event{e, err}
		}()
		require.Eventually(t, consumers(1), time.Minute, time.Millisecond)
		return events
	}
	third := write("", 3)
	require.NoError(t, kv.Purge(t.Context(), key))
	purged, err := store.Load(t.Context(), resource)
	require.NoError(t, err)
	require.Zero(t, purged.Record)
	require.NotEqual(t, third, purged.Version)
	third = write(purged.Version, 3)

	events := watch(t.Context(), third)
	s.restart() // which forgets the consumer
	require.Eventually(t, conn.IsConnected, time.Minute, time.Millisecond)
	fourth := write(third, 4)
	got := <-events
	require.NoError(t, got.err)
	require.Equal(t, fourth, got.e.Version)

	ctx, cancel := context.WithCancel(t.Context())
	events = watch(ctx, fourth)
	cancel()
	require.ErrorIs(t, (<-events).err, context.Canceled)
	events = watch(t.Context(), fourth)
	conn.Close()
	require.ErrorContains(t, (<-events).err, "natstoken: ", "whether the client knows of its watch already or not")
}

// Three servers, of which the leader is killed again and again. A read from a replica that is
// behind would break rules of the suite.
//
// hazard L19
func TestStressACluster(t *testing.T) {
	t.Parallel()
	routes := make([]string, 3)
	for i := range routes {
		routes[i] = "nats://" + serverproc.Loopback(serverproc.FreePort(t))
	}
	servers, urls, names := make([]*server, 3), make([]string, 3), []string{"a", "b", "c"}
	for i, route := range routes {
		servers[i] = start(t, fmt.Sprintf("server_name: %s\ncluster { name: c, listen: %q, routes: [%s] }", names[i], strings.TrimPrefix(route, "nats://"), strings.Join(routes, ",")))
		urls[i] = servers[i].addr()
	}
	_, js := connect(t, strings.Join(urls, ","))
	config := jetstream.KeyValueConfig{Bucket: "fencepost", Replicas: 3}
	require.Eventually(t, func() bool {
		_, err := js.CreateOrUpdateKeyValue(t.Context(), config)
		return err == nil
	}, 2*time.Minute, 100*time.Millisecond)
	conform(t, strings.Join(urls, ","), config, 8)

	iss := natstoken.New(js, bucket(t, js, config))
	eventually := func(call func() error) {
		t.Helper()
		var err error
		require.Eventually(t, func() bool { err = call(); return !isUnreachable(err) }, 2*time.Minute, 10*time.Millisecond)
		require.NoError(t, err)
	}
	last := int64(0)
	for round := range 5 {
		holder := fmt.Sprint("h", round)
		var g token.Grant
		eventually(func() (err error) { g, err = iss.Acquire(t.Context(), "killed", holder, long); return err })
		require.Greater(t, g.Token.Number, last)
		last = g.Token.Number
		var leader *server
		eventually(func() error {
			stream, err := js.Stream(t.Context(), "KV_fencepost")
			if err == nil {
				leader = servers[slices.Index(names, stream.CachedInfo().Cluster.Leader)]
			}
			return err
		})
		leader.Kill()
		eventually(func() error { _, err := iss.Renew(t.Context(), g.Token, long); return err })
		leader.restart()
		eventually(func() error { return iss.Release(t.Context(), g.Token) })
	}
	servers[0].Kill()
	servers[1].Kill()
	_, err := iss.Acquire(t.Context(), "killed", "h", long)
	require.ErrorIs(t, err, token.ErrUnreachable)
}

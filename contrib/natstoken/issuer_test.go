package natstoken_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/natstoken"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/token"
)

func TestIssuerOnNATS(t *testing.T) {
	t.Parallel()
	conform(t, start(t, "").addr(), jetstream.KeyValueConfig{Bucket: "fencepost"}, 1)
}

func TestStressIssuerOnNATSInEightProcesses(t *testing.T) {
	t.Parallel()
	conform(t, start(t, "").addr(), jetstream.KeyValueConfig{Bucket: "fencepost"}, 8)
}

// conform tests issuers with connections of their own, as in processes.
func conform(t *testing.T, url string, config jetstream.KeyValueConfig, n int) {
	t.Helper()
	_, js := connect(t, url)
	kv, all := bucket(t, js, config), make([]*natstoken.Issuer, n)
	for i := range all {
		_, js := connect(t, url)
		all[i] = natstoken.New(js, bucket(t, js, config))
	}
	registertest.TestIssuer(t, n, func(_ *testing.T, i int) register.Interface { return all[i] },
		func(ctx context.Context, resource string) error { return kv.Delete(ctx, register.Name(resource)) })
}

func TestBucket(t *testing.T) {
	t.Parallel()
	_, js := connect(t, start(t, "").addr())
	open := func(t *testing.T, config jetstream.KeyValueConfig) (*natstoken.Issuer, jetstream.KeyValue) {
		t.Helper()
		kv := bucket(t, js, config)
		return natstoken.New(js, kv), kv
	}
	t.Run("the keys of all legal names are different and are listed, and a newcomer takes over", func(t *testing.T) {
		t.Parallel()
		_, kv := open(t, jetstream.KeyValueConfig{Bucket: "names"})
		_, err := kv.PutString(t.Context(), "of/another=program", "x")
		require.NoError(t, err)
		registertest.TestNames(t, func() register.Interface { return natstoken.New(js, kv) })
	})
	t.Run("a key that another program has written is an error that names it", func(t *testing.T) {
		t.Parallel()
		iss, kv := open(t, jetstream.KeyValueConfig{Bucket: "other"})
		for _, err := range iss.Locks(t.Context(), "") {
			t.Error("the bucket is empty", err)
		}
		_, err := kv.PutString(t.Context(), key, "locked")
		require.NoError(t, err)
		_, err = iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, `natstoken: the key "account=2F42" has no record`)
		require.NotErrorIs(t, err, token.ErrUnreachable)
		for _, err := range iss.Locks(t.Context(), "") {
			require.ErrorContains(t, err, "has no record")
		}
	})
	t.Run("a bucket whose keys expire is refused", func(t *testing.T) {
		t.Parallel()
		iss, _ := open(t, jetstream.KeyValueConfig{Bucket: "expiring", TTL: long})
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, `natstoken: the bucket "expiring" has a TTL`)
		require.NotErrorIs(t, err, token.ErrUnreachable)
	})
	t.Run("no bucket", func(t *testing.T) {
		t.Parallel()
		iss, _ := open(t, jetstream.KeyValueConfig{Bucket: "none"})
		require.NoError(t, js.DeleteKeyValue(t.Context(), "none"))
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, "natstoken: nats: API error: code=404 err_code=10059 description=stream not found")
		require.NotErrorIs(t, err, token.ErrUnreachable)
	})
	t.Run("a bucket that is full may have room later", func(t *testing.T) {
		t.Parallel()
		iss, _ := open(t, jetstream.KeyValueConfig{Bucket: "full", MaxBytes: 100})
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, "maximum bytes exceeded")
		require.ErrorIs(t, err, token.ErrUnreachable)
	})
}

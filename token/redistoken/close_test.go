package redistoken_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestCloseEndsWaitingAndNothingElse(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	require.NoError(t, iss.Close(), "before anybody waited")
	_, err := iss.Wait(t.Context(), resource, "free", long)
	require.NoError(t, err, "it need not wait")

	iss = &redistoken.Issuer{Client: client, Prefix: prefix}
	got := waits(t.Context(), t, iss, client, "waiter", long)
	require.NoError(t, iss.Close())
	err = (<-got).err
	require.ErrorIs(t, err, redistoken.ErrClosed)
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "free", held.Holder)
	require.Zero(t, client.Exists(t.Context(), lineKey(prefix, resource)).Val(), "it has left the line")
	_, err = iss.Wait(t.Context(), resource, "later", long)
	require.ErrorIs(t, err, redistoken.ErrClosed)
	require.NoError(t, iss.Close(), "again")

	free := token.Token{Resource: resource, Number: 1, Holder: "free"}
	_, err = iss.Renew(t.Context(), free, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), free))
	cycle(t, iss, "after")
}

func TestSubscriptionsEndWhenNobodyHasWaitedForLong(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	iss := closing(t, &redistoken.Issuer{Client: client})
	redistoken.Rest(iss, 40*time.Millisecond)
	subscribed := func() int { return len(client.PubSubChannels(t.Context(), "*").Val()) }
	for range 2 { // it comes back
		tok := acquire(t, iss, "holder")
		got := waits(t.Context(), t, iss, client, "waiter", long)
		require.Equal(t, 1, subscribed())
		require.NoError(t, iss.Release(t.Context(), tok))
		require.NoError(t, iss.Release(t.Context(), handed(t, got).Token))
		require.Eventually(t, func() bool { return subscribed() == 0 }, time.Minute, time.Millisecond)
	}
}

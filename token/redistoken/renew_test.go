package redistoken_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestABatchIsOneTripForAThousandLeases(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	iss := &redistoken.Issuer{Client: server.Client()}
	batch := held(t, iss, 1001)
	iss.RenewAll(t.Context(), batch[:2]) // the server has the script, and there is a connection
	trips := &tripHook{}
	server.Client().AddHook(trips)
	iss.RenewAll(t.Context(), batch)
	for _, r := range batch {
		require.NoError(t, r.Err)
		require.Positive(t, time.Until(r.Until))
	}
	require.Equal(t, []int{1000, 1}, trips.pipelines)
}

func TestABatchSurvivesAServerThatHasForgottenTheScript(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{
		"one server": testenv.OwnRedis(t).Client(), "a cluster": testenv.RedisCluster(t, 3, 0).Client(),
	} {
		iss := &redistoken.Issuer{Client: client}
		batch := held(t, iss, 50)
		for range 2 {
			require.NoError(t, client.ScriptFlush(t.Context()).Err())
			iss.RenewAll(t.Context(), batch)
			for _, r := range batch {
				require.NoError(t, r.Err, name)
			}
		}
	}
}

func TestABatchWhoseServerIsGoneIsNotLost(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer client.Close()
	iss := &redistoken.Issuer{Client: client}
	batch := held(t, iss, 3)
	server.Kill()
	for range 3 { // with connections that break, and with connections that cannot be made
		iss.RenewAll(t.Context(), batch)
		for _, r := range batch {
			require.ErrorIs(t, r.Err, token.ErrUnreachable)
			require.NotErrorIs(t, r.Err, token.ErrLost)
		}
	}
}

// held returns renewals of n resources that are held.
func held(t *testing.T, iss *redistoken.Issuer, n int) []token.Renewal {
	t.Helper()
	batch := make([]token.Renewal, n)
	for n := range batch {
		grant, err := iss.Acquire(t.Context(), fmt.Sprint("account/", n), "a", long)
		require.NoError(t, err)
		batch[n] = token.Renewal{Token: grant.Token, TTL: long}
	}
	return batch
}

// tripHook records the number of commands of each pipeline.
type tripHook struct {
	hook
	pipelines []int
}

func (h *tripHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.pipelines = append(h.pipelines, len(cmds))
		return next(ctx, cmds)
	}
}

// The server may have lost the scripts. A renewal that is sent again comes after the WAIT, which
// has then counted replicas that lack it.
func TestTheRenewalBeforeWaitIsSentOnce(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	sent := &pipelineHook{}
	client.AddHook(sent)
	_, err := (&redistoken.Issuer{Client: client, Prefix: prefix, Replicas: 1}).Acquire(t.Context(), resource, "a", 1500*time.Millisecond)
	require.ErrorIs(t, err, redistoken.ErrReplicas)
	require.ErrorContains(t, err, "0 of 1 after 500ms")
	require.Equal(t, []string{"eval", "wait"}, sent.names)
}

// pipelineHook records the names of the scripts and WAITs in pipelines.
type pipelineHook struct {
	hook
	names []string
}

func (h *pipelineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if name := cmd.Name(); strings.HasPrefix(name, "eval") || name == "wait" { // the client sends its name too
				h.names = append(h.names, name)
			}
		}
		return next(ctx, cmds)
	}
}

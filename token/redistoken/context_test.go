package redistoken_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R10
func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("the caller has gone")
	for _, enabled := range []bool{false, true} {
		for name, bound := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, 200*time.Millisecond, cause)
			},
			"cancellation": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				timer := time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
				return ctx, func() { timer.Stop(); cancel(nil) }
			},
		} {
			t.Run(fmt.Sprintf("by %s, ContextTimeoutEnabled %t", name, enabled), func(t *testing.T) {
				t.Parallel()
				for verb, call := range verbs(&redistoken.Issuer{Client: unresponsive(t, enabled)}) {
					ctx, cancel := bound(t.Context())
					defer cancel()
					err := within(t, start(ctx, call), verb+" has not returned after its context ended")
					require.ErrorIs(t, err, cause, verb)
					require.ErrorContains(t, err, "redistoken: "+verb)
				}
			})
		}
	}
}

// hazard R10
func TestPlainCallOutlivesItsContext(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		client := unresponsive(t, enabled)
		ctx, cancel := context.WithCancel(t.Context())
		if !enabled {
			ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
		}
		answer := start(ctx, func(ctx context.Context) error { return client.Get(ctx, "x").Err() })
		time.AfterFunc(200*time.Millisecond, cancel)
		<-ctx.Done()
		select {
		case err := <-answer:
			t.Fatalf("the plain call must go on, but returned %v (ContextTimeoutEnabled %t)", err, enabled)
		case <-time.After(500 * time.Millisecond):
		}
		require.NoError(t, client.Close())
		require.Error(t, <-answer)
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	cause := errors.New("over before it began")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	client := embedded(t)
	for verb, call := range verbs(&redistoken.Issuer{Client: client}) {
		require.ErrorIs(t, call(ctx), cause, verb)
	}
	require.Zero(t, client.DBSize(t.Context()).Val())
}

// The end of the context is not all that the client's error says.
func TestTheErrorOfACallThatWasCutShortIsKept(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	client.AddHook(cutShort{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := (&redistoken.Issuer{Client: client}).Wait(ctx, resource, "a", long)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "dial tcp")
}

// cutShort fails as a dialer does when the context ends.
type cutShort struct{ hook }

func (cutShort) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-ctx.Done()
		cmd.SetErr(&net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()})
		return cmd.Err()
	}
}

// verbs are calls of iss, by what their errors begin with.
func verbs(iss *redistoken.Issuer) map[string]func(context.Context) error {
	tok := token.Token{Resource: resource, Number: 1, Holder: "a"}
	return map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := iss.Acquire(ctx, resource, "a", long); return err },
		"renew":   func(ctx context.Context) error { _, err := iss.Renew(ctx, tok, long); return err },
		"release": func(ctx context.Context) error { return iss.Release(ctx, tok) },
		"recover": func(ctx context.Context) error { return iss.Recover(ctx, resource, 1) },
		"inspect": func(ctx context.Context) error { _, err := iss.Inspect(ctx, resource); return err },
		"locks": func(ctx context.Context) (err error) {
			for _, err = range iss.Locks(ctx, "") {
			}
			return err
		},
		"renew account/": func(ctx context.Context) (err error) {
			batch := []token.Renewal{{Token: tok, TTL: long}, {Token: tok, TTL: long}, {Token: tok, TTL: long}}
			iss.RenewAll(ctx, batch)
			for _, r := range batch {
				if r.Err == nil {
					return nil
				}
				err = r.Err
			}
			return err
		},
	}
}

func start(ctx context.Context, call func(context.Context) error) <-chan error {
	answer := make(chan error, 1)
	go func() { answer <- call(ctx) }()
	return answer
}

// unresponsive returns a client of a server that accepts connections and never replies.
func unresponsive(t *testing.T, contextTimeoutEnabled bool) *redis.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() { defer conn.Close(); _, _ = io.Copy(io.Discard, conn) })
		}
	})
	client := redis.NewClient(&redis.Options{
		Addr: listener.Addr().String(), MaxRetries: -1,
		ReadTimeout: time.Hour, ContextTimeoutEnabled: contextTimeoutEnabled,
	})
	t.Cleanup(func() { client.Close(); listener.Close(); done.Wait() })
	return client
}

package depose_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// between calls what happens in front of the n-th call that a break makes: of the issuer, or
// of the guard.
type between struct {
	depose.Issuer
	guard.Store
	calls, nth int
	happens    func()
}

func (b *between) step() {
	if b.calls++; b.calls == b.nth {
		b.happens()
	}
}

func (b *between) Inspect(ctx context.Context, resource string) (token.State, error) {
	b.step()
	return b.Issuer.Inspect(ctx, resource)
}

func (b *between) Recover(ctx context.Context, resource string, number int64) error {
	b.step()
	return b.Issuer.Recover(ctx, resource, number)
}

func (b *between) Release(ctx context.Context, tok token.Token) error {
	b.step()
	return b.Issuer.Release(ctx, tok)
}

func (b *between) Admit(ctx context.Context, tok token.Token) error {
	b.step()
	return b.Store.Admit(ctx, tok)
}

func breakOf(b *between, resource string) *depose.Break {
	return &depose.Break{
		Issuer: b, Guards: []depose.Guard{{Name: "the store", Store: b}}, Limit: time.Minute,
		Resource: resource, Holder: "a", By: "the operator",
	}
}

// The holder releases, and a successor acquires and claims, in front of each call that a break
// makes. The successor keeps the lock and is not deposed, also if the break raises the numbers
// far above the clock, from which the successor's is drawn.
func TestBreakSparesASuccessor(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	client, prefix := testenv.Redis(t)
	redis, postgres := &redistoken.Issuer{Client: client, Prefix: prefix}, &pgtoken.Issuer{DB: pool, Schema: schema}
	t.Cleanup(func() {
		require.NoError(t, redis.Close())
		require.NoError(t, postgres.Close())
	})
	const calls = 6 // inspect, recover, inspect, admit, release, inspect
	for server, iss := range map[string]depose.Issuer{"redis": redis, "postgres": postgres} {
		for nth := 1; nth <= calls; nth++ {
			for _, above := range []time.Duration{0, time.Hour} {
				t.Run(fmt.Sprintf("%s, call %d, %s above", server, nth, above), func(t *testing.T) {
					t.Parallel()
					resource := fmt.Sprintf("%s/%s/%d/%s", prefix, server, nth, above)
					acquire := func(holder string) token.Token {
						grant, err := iss.Acquire(t.Context(), resource, holder, pgtest.Long)
						require.NoError(t, err)
						return grant.Token
					}
					marks := &sqlguard.Guard{DB: pool, Schema: schema}
					a, next := acquire("a"), token.Token{}
					require.NoError(t, marks.Admit(t.Context(), a))
					between := &between{Issuer: iss, Store: marks, nth: nth, happens: func() {
						_ = iss.Release(t.Context(), a) // the break may have freed it already
						next = acquire("b")
						require.NoError(t, marks.Admit(t.Context(), next))
					}}
					b := breakOf(between, resource)
					if above > 0 {
						b.Above = a.Number + int64(above/(10*time.Microsecond))
					}
					_, done, now, err := b.Run(t.Context())
					require.NoError(t, err)
					require.GreaterOrEqual(t, between.calls, nth)
					_, err = iss.Renew(t.Context(), next, pgtest.Long)
					require.NoError(t, err)
					require.NoError(t, marks.Admit(t.Context(), next))
					require.ErrorIs(t, marks.Admit(t.Context(), a), guard.ErrStale)
					if nth <= 3 {
						require.Equal(t, "b", now.Holder)
						require.Nil(t, done)
					}
				})
			}
		}
	}
}

// A guard has admitted the holder with a number that the issuer has forgotten, so that the
// guards are raised twice. In between a successor has acquired, or the number is refused. What
// was done is returned, and is not called nothing.
func TestBreakReturnsWhatItHasDone(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	for name, days := range map[string]int64{`a guard still admits the deposed holder, and "b" has the lock now`: 0, token.ErrTooFarAhead.Error(): 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resource := schema + "/" + name[:9]
			a, err := iss.Acquire(t.Context(), resource, "a", pgtest.Long)
			require.NoError(t, err)
			a.Token.Number += 60*60*100_000 + days*token.MaxAhead
			marks := &sqlguard.Guard{DB: pool, Schema: schema}
			require.NoError(t, marks.Admit(t.Context(), a.Token))
			between := &between{Issuer: iss, Store: marks, nth: 5, happens: func() { // behind inspect, recover, inspect, admit
				require.NoError(t, iss.Release(t.Context(), a.Token))
				_, err := iss.Acquire(t.Context(), resource, "b", pgtest.Long)
				require.NoError(t, err)
			}}
			if days > 0 {
				between.nth = 0
			}
			_, done, _, err := breakOf(between, resource).Run(t.Context())
			require.ErrorContains(t, err, name)
			require.Contains(t, fmt.Sprint(done), fmt.Sprintf("it admits the holder with %d", a.Token.Number))
		})
	}
}

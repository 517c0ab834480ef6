package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token/memtoken"
)

// BenchmarkHold measures the cost of a lease besides its issuer's: compare Hold with the
// bare issuer, and Reenter with both.
func BenchmarkHold(b *testing.B) {
	nothing := func(context.Context) error { return nil }
	b.Run("the bare issuer", func(b *testing.B) {
		var iss memtoken.Issuer
		b.ReportAllocs()
		for b.Loop() {
			grant, err := iss.Acquire(b.Context(), account, "bench", time.Minute)
			if err != nil || iss.Release(b.Context(), grant.Token) != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Hold", func(b *testing.B) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
		b.ReportAllocs()
		for b.Loop() {
			if err := locker.Hold(b.Context(), account, nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Reenter", func(b *testing.B) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
		held, err := locker.Acquire(b.Context(), account)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := locker.Hold(held.Context(), account, nothing); err != nil {
				b.Fatal(err)
			}
		}
		if err := held.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
}

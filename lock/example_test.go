package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func ExampleLocker_Hold() {
	locker := lock.Locker{Issuer: new(memtoken.Issuer), Name: "billing", Claim: new(guard.Memory).Admit}
	err := locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
		tok, err := token.FromContext(ctx, "account/42")
		if err != nil {
			return err
		}
		fmt.Println("working on", tok.Resource)
		return nil
	})
	fmt.Println(err)
	// Output:
	// working on account/42
	// <nil>
}

// All callers acquire the resources in the same order.
func ExampleLocker_HoldAll() {
	locker := lock.Locker{Issuer: new(memtoken.Issuer), WaitTimeout: time.Minute, Claim: new(guard.Memory).Admit}
	err := locker.HoldAll(context.Background(), []string{"account/42", "account/17"}, func(ctx context.Context) error {
		for _, tok := range token.All(ctx) {
			fmt.Println(tok.Resource)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// account/17
	// account/42
	// <nil>
}

func ExampleLocker_noWait() {
	locker := lock.Locker{Issuer: new(memtoken.Issuer), NoWait: true, Claim: new(guard.Memory).Admit}
	held, err := locker.Acquire(context.Background(), "report/daily")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release(context.Background())

	err = locker.Hold(context.Background(), "report/daily", func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, token.ErrHeld))
	// Output: true
}

// A semaphore is a set of slots. Each slot is a resource.
func ExampleLocker_HoldAny() {
	locker := lock.Locker{Issuer: new(memtoken.Issuer), NoWait: true, Claim: new(guard.Memory).Admit}
	seats := []string{"printer/1", "printer/2"}
	err := locker.HoldAny(context.Background(), seats, func(ctx context.Context, _ string) error {
		return locker.HoldAny(context.Background(), seats, func(context.Context, string) error {
			fmt.Println(errors.Is(locker.Hold(context.Background(), "printer/1", nil), token.ErrHeld))
			fmt.Println(errors.Is(locker.Hold(context.Background(), "printer/2", nil), token.ErrHeld))
			return ctx.Err()
		})
	})
	fmt.Println(err)
	// Output:
	// true
	// true
	// <nil>
}

// A job on three machines, each with its own clock. The first machine runs it. The others
// find the resource held for longer than their clocks differ.
func ExampleLocker_holdAtLeast() {
	locker := lock.Locker{Issuer: new(memtoken.Issuer), HoldAtLeast: time.Minute, NoWait: true, Claim: new(guard.Memory).Admit}
	for range 3 {
		err := locker.Hold(context.Background(), "job/nightly", func(context.Context) error {
			fmt.Println("running")
			return nil
		})
		fmt.Println(errors.Is(err, token.ErrHeld))
	}
	// Output:
	// running
	// false
	// true
	// true
}

// A claim before the work raises the mark. From then on a predecessor's late write is
// refused, whether this holder has written or not.
func ExampleLocker_claim() {
	var marks guard.Memory
	locker := lock.Locker{Issuer: new(memtoken.Issuer), Claim: marks.Admit}
	var zombie token.Token
	for range 2 {
		_ = locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
			if zombie.Number > 0 {
				fmt.Println(errors.Is(marks.Admit(ctx, zombie), guard.ErrStale))
			}
			zombie, _ = token.FromContext(ctx, "account/42")
			return nil
		})
	}
	// Output: true
}

// Acquire is for work that does not fit a closure.
func ExampleLocker_Acquire() {
	locker := lock.Locker{Issuer: new(memtoken.Issuer), Claim: new(guard.Memory).Admit}
	held, err := locker.Acquire(context.Background(), "account/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(held.Token().Resource, held.Context().Err())
	fmt.Println(held.Release(context.Background()))
	fmt.Println(context.Cause(held.Context()))
	// Output:
	// account/42 <nil>
	// <nil>
	// token: lease released
}

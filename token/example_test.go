package token_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func ExampleLocker_Hold() {
	locker := token.Locker{Issuer: new(memtoken.Issuer), Name: "billing"}
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

// Several resources are taken in one order by everybody.
func ExampleLocker_HoldAll() {
	locker := token.Locker{Issuer: new(memtoken.Issuer), Wait: time.Minute}
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

func ExampleLocker_TryHold() {
	locker := token.Locker{Issuer: new(memtoken.Issuer)}
	held, err := locker.Acquire(context.Background(), "report/daily")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release(context.Background())

	err = locker.TryHold(context.Background(), "report/daily", func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, token.ErrHeld))
	// Output: true
}

// A semaphore is a number of slots, each a resource of its own.
func ExampleLocker_HoldAny() {
	locker := token.Locker{Issuer: new(memtoken.Issuer)}
	seats := []string{"printer/1", "printer/2"}
	err := locker.HoldAny(context.Background(), seats, func(ctx context.Context, _ string) error {
		return locker.HoldAny(context.Background(), seats, func(context.Context, string) error {
			fmt.Println(errors.Is(locker.TryHold(context.Background(), "printer/1", nil), token.ErrHeld))
			fmt.Println(errors.Is(locker.TryHold(context.Background(), "printer/2", nil), token.ErrHeld))
			return ctx.Err()
		})
	})
	fmt.Println(err)
	// Output:
	// true
	// true
	// <nil>
}

// A job on three machines, each with a clock of its own: whoever is first runs
// it, and the others find the resource held for longer than their clocks differ.
func ExampleLocker_atLeast() {
	locker := token.Locker{Issuer: new(memtoken.Issuer), AtLeast: time.Minute}
	for range 3 {
		err := locker.TryHold(context.Background(), "job/nightly", func(context.Context) error {
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

// A claim before the work raises the mark, so that a predecessor's late write
// is refused from then on, whether this holder has written or not.
func ExampleLocker_claim() {
	var marks guard.Memory
	locker := token.Locker{Issuer: new(memtoken.Issuer), Claim: marks.Admit}
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

// The handle is for work that does not fit a closure.
func ExampleLocker_Acquire() {
	locker := token.Locker{Issuer: new(memtoken.Issuer)}
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

// Code that may write asks its context, which fails closed.
func ExampleFromContext() {
	ctx := token.NewContext(context.Background(), token.Token{Resource: "account/42", Number: 33, Holder: "billing:7:1:c2f1"})
	tok, err := token.FromContext(ctx, "account/42")
	fmt.Println(tok, err)
	_, err = token.FromContext(ctx, "acount/42")
	fmt.Println(err)
	// Output:
	// account/42#33 <nil>
	// token: no token for acount/42 in context (it carries: account/42)
}

func ExampleToken_MarshalText() {
	tok, err := token.New("konto/größe", 33, "billing:7:1:c2f1")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := tok.MarshalText()
	fmt.Println(string(text), err)
	// Output: 33;r=%"konto/gr%c3%b6%c3%9fe";h="billing:7:1:c2f1" <nil>
}

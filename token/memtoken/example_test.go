package memtoken_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func Example() {
	ctx := context.Background()
	issuer := new(memtoken.Issuer)
	first, err := issuer.Acquire(ctx, "account/42", "worker-1", time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = issuer.Acquire(ctx, "account/42", "worker-2", time.Minute)
	fmt.Println("worker-2 is refused:", errors.Is(err, token.ErrHeld))

	if err := issuer.Release(ctx, first.Token); err != nil {
		fmt.Println(err)
		return
	}
	second, err := issuer.Acquire(ctx, "account/42", "worker-2", time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("its number is greater:", second.Token.Number > first.Token.Number)
	// Output:
	// worker-2 is refused: true
	// its number is greater: true
}

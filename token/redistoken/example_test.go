package redistoken_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func Example() {
	server, err := miniredis.Run() // a Redis inside this process, for the example
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	iss := &redistoken.Issuer{Client: client}
	defer iss.Close()
	ctx := context.Background()
	first, err := iss.Acquire(ctx, "account/42", "worker-1", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = iss.Acquire(ctx, "account/42", "worker-2", 10*time.Second)
	var held *token.HeldError
	fmt.Println(errors.As(err, &held), held.Holder)

	waited := make(chan token.Grant)
	go func() {
		grant, err := iss.Wait(ctx, "account/42", "worker-2", 10*time.Second)
		if err != nil {
			fmt.Println(err)
		}
		waited <- grant
	}()
	if err := iss.Release(ctx, first.Token); err != nil {
		fmt.Println(err)
	}
	second := <-waited
	fmt.Println(second.Token.Holder, second.Token.Number > first.Token.Number)
	// Output:
	// true worker-1
	// worker-2 true
}

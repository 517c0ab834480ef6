package redisguard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

// A holder writes, is paused, and is overtaken.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	ctx := context.Background()
	paused := token.NewContext(ctx, token.Token{Resource: "account/42", Number: 33, Holder: "a"})
	successor := token.NewContext(ctx, token.Token{Resource: "account/42", Number: 34, Holder: "b"})

	g := &redisguard.Guard{Client: client}
	const balance = "balance:{account/42}"
	fmt.Println(g.Set(paused, "account/42", balance, 100, 0))
	fmt.Println(g.Set(successor, "account/42", balance, 58, 0))
	fmt.Println(g.Set(paused, "account/42", balance, 99, 0))
	fmt.Println(client.Get(ctx, balance).Val())
	// Output:
	// <nil>
	// <nil>
	// guard: stale token account/42#33: overtaken by #34 of b
	// 58
}

// A read-modify-write in one script, and what can become of it.
func ExampleGuard_Eval() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	const withdraw = `
		local left = tonumber(redis.call('GET', KEYS[1]) or '0') - tonumber(ARGV[1])
		if left < 0 then return 'too little' end
		redis.call('SET', KEYS[1], string.format('%.0f', left))
		return left`
	ctx := token.NewContext(context.Background(), token.Token{Resource: "account/42", Number: 33, Holder: "a"})
	g := &redisguard.Guard{Client: client}
	const balance = "balance:{account/42}"
	if err := g.Set(ctx, "account/42", balance, 100, 0); err != nil {
		fmt.Println(err)
	}
	for range 3 {
		left, err := g.Eval(ctx, "account/42", withdraw, []string{balance}, 42)
		switch {
		case errors.Is(err, guard.ErrStale):
			fmt.Println("the lock has passed on, nothing was written")
		case errors.Is(err, guard.ErrUnknown):
			fmt.Println("read the balance to find out")
		case err != nil:
			fmt.Println("nothing was written:", err)
		default:
			fmt.Println(left)
		}
	}
	// Output:
	// 58
	// 16
	// too little
}

// A program that wrote by client.TxPipelined changes one name, and adds the resource.
func ExampleGuard_TxPipelined() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	ctx := token.NewContext(context.Background(), token.Token{Resource: "account/42", Number: 33, Holder: "a"})
	g := &redisguard.Guard{Client: client}
	var left, entries *redis.IntCmd
	_, err = g.TxPipelined(ctx, "account/42", func(pipe redis.Pipeliner) error {
		left = pipe.DecrBy(ctx, "balance:{account/42}", 42)
		entries = pipe.RPush(ctx, "ledger:{account/42}", "-42")
		return nil
	})
	fmt.Println(left.Val(), entries.Val(), err)
	// Output:
	// -42 1 <nil>
}

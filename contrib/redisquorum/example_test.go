package redisquorum_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

func Example() {
	ctx := context.Background()
	issuer := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{
		"a": redis.NewClient(&redis.Options{Addr: "redis-a:6379"}),
		"b": redis.NewClient(&redis.Options{Addr: "redis-b:6379"}),
		"c": redis.NewClient(&redis.Options{Addr: "redis-c:6379"}),
	}}
	locker := lock.Locker{Issuer: issuer, Name: "billing", DangerouslyWithoutClaim: true}
	err := locker.Hold(ctx, "account/42", func(ctx context.Context) error {
		tok, err := token.FromContext(ctx, "account/42") // as a guard does
		log.Println(tok)
		return err
	})
	if err != nil {
		log.Print(err)
	}
}

// An operator runs this program once, before all other programs.
func ExampleIssuer_Bootstrap() {
	issuer := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{
		"a": redis.NewClient(&redis.Options{Addr: "redis-a:6379"}),
		"b": redis.NewClient(&redis.Options{Addr: "redis-b:6379"}),
		"c": redis.NewClient(&redis.Options{Addr: "redis-c:6379"}),
	}}
	if err := issuer.Bootstrap(context.Background()); err != nil {
		log.Fatal(err)
	}
}

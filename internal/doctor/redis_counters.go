package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// buckets are redistoken's.
const buckets = 256

// redisCounters asks each counter by its name. A node of a cluster has a part
// of them.
func redisCounters(ctx context.Context, s *redisServer) (answer, error) {
	pipe := s.client.Pipeline()
	asked := make([]*redis.DurationCmd, buckets)
	for i := range asked {
		asked[i] = pipe.PTTL(ctx, s.counter(i))
	}
	if _, err := pipe.Exec(ctx); err != nil && !told(err) {
		return answer{}, err
	}
	there, elsewhere := 0, 0
	var expiring []string
	for i, cmd := range asked {
		left, err := cmd.Result()
		switch {
		case err != nil && strings.HasPrefix(err.Error(), "MOVED"):
			elsewhere++
		case err != nil:
			return answer{}, err
		case left == -1:
			there++
		case left >= 0:
			expiring = append(expiring, s.counter(i))
		}
	}
	evidence := fmt.Sprintf("%d counters of prefix %q without a ttl", there, s.prefix)
	if elsewhere > 0 {
		evidence += fmt.Sprintf(", %d buckets on other nodes", elsewhere)
	}
	if len(expiring) > 0 {
		return fail(fmt.Sprintf("%s, %d with one: %s", evidence, len(expiring), expiring[0]),
			"PERSIST "+strings.Join(expiring[:min(3, len(expiring))], "; PERSIST ")+"; and find who sets it")
	}
	return pass("%s", evidence)
}

func (s *redisServer) counter(bucket int) string {
	return fmt.Sprintf("%s:{%d}:counter", s.prefix, bucket)
}

// redisScripts runs one that reads what ours read.
func redisScripts(ctx context.Context, s *redisServer) (answer, error) {
	const script = "redis.call('GET', KEYS[1]); return redis.call('TIME')[1]"
	err := s.client.Eval(ctx, script, []string{s.counter(0)}).Err()
	switch {
	case err == nil, err != nil && strings.HasPrefix(err.Error(), "MOVED"):
		return pass("EVAL, GET and TIME are allowed on %s", s.counter(0))
	case !told(err) || errors.Is(err, redis.Nil):
		return answer{}, err
	}
	return fail(err.Error(), "ACL SETUSER … ~"+s.prefix+":* &"+s.prefix+":* +@scripting +@read +@write +@pubsub +time")
}

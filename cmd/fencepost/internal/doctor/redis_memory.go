package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// full is the used part of the memory, or of the connections, above which a check warns.
const full = 0.9

// redisEviction reads the policy from INFO, because some servers hide CONFIG. Locks and
// queues have a ttl, so a policy for volatile keys evicts them first.
func redisEviction(evidence string, values []string) (answer, error) {
	policy, limited, evicted := values[0], values[1] != "0", values[2]
	const fix = "CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE; or a Redis of its own for locks"
	switch {
	case policy == "noeviction" && evicted == "0":
		return pass(evidence)
	case policy == "noeviction":
		return warn(evidence+": keys were evicted before, under another policy", "CONFIG RESETSTAT, once you know what was lost")
	case limited && strings.HasPrefix(policy, "volatile"):
		return fail(evidence+": locks have a ttl, and are evicted", fix)
	case limited:
		return fail(evidence+": locks and counters are evicted", fix)
	}
	return warn(evidence+": nothing is evicted while maxmemory is not set", fix)
}

func redisMemory(evidence string, values []string) (answer, error) {
	used, err := strconv.ParseFloat(values[0], 64)
	if err != nil {
		return answer{}, missingError(evidence)
	}
	most, err := strconv.ParseFloat(values[1], 64)
	if err != nil {
		return answer{}, missingError(evidence)
	}
	if most > 0 && used > full*most {
		return warn(fmt.Sprintf("%s: %.0f %% are used", evidence, 100*used/most), "CONFIG SET maxmemory to more, or move other data away")
	}
	return pass(evidence)
}

// buckets is the number of redistoken's counters.
const buckets = 256

// redisCounters reads each counter by its name. A node of a cluster has a part
// of them.
func redisCounters(ctx context.Context, s *redisServer) (answer, error) {
	pipe := s.client.Pipeline()
	asked := make([]*redis.DurationCmd, buckets)
	for i := range asked {
		asked[i] = pipe.PTTL(ctx, s.counter(i))
	}
	if _, err := pipe.Exec(ctx); err != nil && !isServerError(err) {
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
	return pass(evidence)
}

func (s *redisServer) counter(bucket int) string {
	return fmt.Sprintf("%s:{%d}:counter", s.prefix, bucket)
}

// redisScripts runs a script that reads what redistoken's scripts read.
func redisScripts(ctx context.Context, s *redisServer) (answer, error) {
	const script = "redis.call('GET', KEYS[1]); return redis.call('TIME')[1]"
	err := s.client.Eval(ctx, script, []string{s.counter(0)}).Err()
	switch {
	case err == nil, err != nil && strings.HasPrefix(err.Error(), "MOVED"):
		return pass("EVAL, GET and TIME are allowed on " + s.counter(0))
	case !isServerError(err) || errors.Is(err, redis.Nil):
		return answer{}, err
	}
	return fail(err.Error(), "ACL SETUSER … ~"+s.prefix+":* &"+s.prefix+":* +@scripting +@read +@write +@pubsub +time")
}

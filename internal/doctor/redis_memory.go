package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// full is the part of its memory from which on a Redis is called full.
const full = 0.9

// redisEviction knows that INFO tells the policy where CONFIG is hidden. Locks
// and lines have a ttl, so a policy for volatile keys takes them first.
func redisEviction(_ context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.said("maxmemory_policy", "maxmemory", "evicted_keys")
	if err != nil {
		return answer{}, err
	}
	policy, limited, evicted := values[0], values[1] != "0", values[2]
	const fix = "CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE; or a Redis of its own for locks"
	switch {
	case policy == "noeviction" && evicted == "0":
		return pass("%s", evidence)
	case policy == "noeviction":
		return warn(evidence+": keys were evicted before, under another policy", "CONFIG RESETSTAT, once you know what was lost")
	case limited && strings.HasPrefix(policy, "volatile"):
		return fail(evidence+": locks have a ttl, and are evicted", fix)
	case limited:
		return fail(evidence+": locks and counters are evicted", fix)
	}
	return warn(evidence+": nothing is evicted until somebody sets maxmemory", fix)
}

func redisMemory(_ context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.said("used_memory", "maxmemory")
	if err != nil {
		return answer{}, err
	}
	used, err := strconv.ParseFloat(values[0], 64)
	if err != nil {
		return answer{}, silentError(evidence)
	}
	most, err := strconv.ParseFloat(values[1], 64)
	if err != nil {
		return answer{}, silentError(evidence)
	}
	if most > 0 && used > full*most {
		return warn(fmt.Sprintf("%s: %.0f %% are used", evidence, 100*used/most), "CONFIG SET maxmemory to more, or move other data away")
	}
	return pass("%s", evidence)
}

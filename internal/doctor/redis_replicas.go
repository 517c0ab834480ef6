package doctor

import (
	"context"
	"fmt"
	"time"
)

func redisRole(ctx context.Context, s *redisServer) (answer, error) {
	if s.hidden == nil && s.info["redis_mode"] == "sentinel" {
		return fail("redis_mode:sentinel", "give the URL of a Redis, which Sentinel watches")
	}
	values, evidence, err := s.said("role")
	if err != nil {
		return answer{}, err
	}
	if values[0] == "master" {
		return pass("%s", evidence)
	}
	const fix = "give the master's URL, or a name that follows it"
	if only, _, err := s.set(ctx, "replica-read-only"); err == nil && only[0] == "no" {
		return fail(evidence+", replica-read-only no: it grants what its master grants too", "CONFIG SET replica-read-only yes; and "+fix)
	}
	return fail(evidence, fix)
}

func redisVersion(_ context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.said("redis_version")
	if err != nil {
		return answer{}, err
	}
	var major int
	if _, err := fmt.Sscanf(values[0], "%d.", &major); err != nil {
		return answer{}, silentError(evidence)
	}
	if major < 5 {
		return fail(evidence, "upgrade the server")
	}
	return pass("%s", evidence)
}

// redisReplicas cannot pass a server that has some: with either setting there
// is a window.
func redisReplicas(ctx context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.said("connected_slaves")
	if err != nil {
		return answer{}, err
	}
	if values[0] == "0" {
		return pass("%s: none that could be promoted", evidence)
	}
	set, shown, err := s.set(ctx, "min-replicas-to-write", "min-replicas-max-lag")
	if err != nil {
		return unknown(evidence+"; "+err.Error(), redisHidden)
	}
	evidence += "; " + shown
	if set[0] == "0" {
		return warn(evidence+": a master that is cut off goes on granting",
			"CONFIG SET min-replicas-to-write 1; CONFIG SET min-replicas-max-lag 1; CONFIG REWRITE; and redistoken.Issuer.Replicas, or redisquorum")
	}
	return warn(evidence+": a master that is cut off goes on for as long as the lag may be",
		"redistoken.Issuer.Replicas, or redisquorum, where that is too long")
}

func redisCluster(ctx context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.said("cluster_enabled")
	if err != nil {
		return answer{}, err
	}
	if values[0] == "0" {
		return pass("%s", evidence)
	}
	text, err := s.client.ClusterInfo(ctx).Result()
	if err != nil {
		return answer{}, err
	}
	cluster := lines(text)
	evidence = fmt.Sprintf("%s cluster_state:%s cluster_size:%s", evidence, cluster["cluster_state"], cluster["cluster_size"])
	if cluster["cluster_state"] != "ok" {
		return fail(evidence, "redis-cli --cluster check, and fix")
	}
	if cluster["cluster_size"] != "1" {
		return warn(evidence+": this node alone was examined", "give --redis once for each master")
	}
	return pass("%s", evidence)
}

func redisClock(ctx context.Context, s *redisServer) (answer, error) {
	o, err := measure(ctx, func(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() })
	if err != nil {
		return answer{}, err
	}
	return o.judge()
}

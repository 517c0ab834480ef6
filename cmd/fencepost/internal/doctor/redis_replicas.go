package doctor

import (
	"context"
	"fmt"
	"time"
)

func redisRole(ctx context.Context, s *redisServer) (answer, error) {
	if s.hidden == nil && s.info["redis_mode"] == "sentinel" {
		return fail("redis_mode:sentinel", "give the URL of a Redis that the Sentinel watches")
	}
	values, evidence, err := s.infoValues(ctx, "role")
	if err != nil {
		return answer{}, err
	}
	if values[0] == "master" {
		return pass(evidence)
	}
	const fix = "give the master's URL, or a name that follows it"
	if only, _, err := s.configValues(ctx, "replica-read-only"); err == nil && only[0] == "no" {
		return fail(evidence+", replica-read-only no: it grants locks that its master grants too", "CONFIG SET replica-read-only yes; and "+fix)
	}
	return fail(evidence, fix)
}

func redisVersion(evidence string, values []string) (answer, error) {
	var major int
	if _, err := fmt.Sscanf(values[0], "%d.", &major); err != nil {
		return answer{}, missingError(evidence)
	}
	if major < 5 {
		return fail(evidence, "upgrade the server")
	}
	return pass(evidence)
}

// redisReplicas passes no server with replicas: with either setting some grants can be
// lost.
func redisReplicas(ctx context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.infoValues(ctx, "connected_slaves")
	if err != nil {
		return answer{}, err
	}
	if values[0] == "0" {
		return pass(evidence + ": there is none to promote")
	}
	set, shown, err := s.configValues(ctx, "min-replicas-to-write", "min-replicas-max-lag")
	if err != nil {
		return unknown(evidence+"; "+err.Error(), redisHidden)
	}
	evidence += "; " + shown
	if set[0] == "0" {
		return warn(evidence+": a master that is cut off continues to grant",
			"CONFIG SET min-replicas-to-write 1; CONFIG SET min-replicas-max-lag 1; CONFIG REWRITE; and redistoken.Issuer.Replicas, or redisquorum")
	}
	return warn(evidence+": a master that is cut off continues to grant for the allowed lag",
		"redistoken.Issuer.Replicas, or redisquorum, if that is too long")
}

func redisCluster(ctx context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.infoValues(ctx, "cluster_enabled")
	if err != nil {
		return answer{}, err
	}
	if values[0] == "0" {
		return pass(evidence)
	}
	text, err := s.client.ClusterInfo(ctx).Result()
	if err != nil {
		return answer{}, err
	}
	cluster := lines(text)
	evidence = fmt.Sprintf("%s cluster_state:%s cluster_size:%s", evidence, cluster["cluster_state"], cluster["cluster_size"])
	if cluster["cluster_state"] != "ok" {
		return fail(evidence, "redis-cli --cluster check, then redis-cli --cluster fix")
	}
	if cluster["cluster_size"] != "1" {
		return warn(evidence+": this node alone was examined", "give --redis once for each master")
	}
	return pass(evidence)
}

func redisClock(ctx context.Context, s *redisServer) (answer, error) {
	o, err := measure(ctx, func(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() })
	if err != nil {
		return answer{}, err
	}
	return o.judge()
}

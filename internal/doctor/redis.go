package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Redis is a server to be examined.
type Redis struct {
	Options *redis.Options
	Prefix  string // of redistoken's keys; "fencepost" where it is empty
}

// redisServer is one that has answered.
type redisServer struct {
	client *redis.Client
	prefix string
	info   map[string]string // of INFO
	hidden error             // why there is no info
}

// redisHidden is the cure for what a Redis does not tell.
const redisHidden = "let this user run INFO and CONFIG GET (ACL SETUSER … +info +config|get), or ask whoever runs the server"

var redisChecks = []check[*redisServer]{
	{"role", "", "A replica refuses every acquisition, and one that may be written to grants what its master grants too.", redisRole},
	{"version", "", "redistoken's scripts need Redis 5: before it a script that reads the clock cannot write.", redisVersion},
	{"persistence", "R2", "What a restart forgets are locks, which are granted a second time, and numbers, which go on from the clock.", redisPersistence},
	{"disk", "R2", "A file that cannot be written is one that a restart does not find.", redisDisk},
	{"eviction", "R3", "What is evicted is a lock, which is then granted again, or a counter, whose numbers begin again at the clock.", redisEviction},
	{"memory", "R3", "A Redis that is full refuses acquisitions, or evicts.", redisMemory},
	{"counters", "R3", "A counter that expires forgets the numbers it gave.", redisCounters},
	{"replicas", "R1", "Replication is asynchronous: a promoted replica grants again what its master had granted last, under the same numbers.", redisReplicas},
	{"cluster", "R1", "Each master of a cluster has a part of the locks, with settings and replicas of its own.", redisCluster},
	{"scripts", "", "Grants, renewals and releases are scripts: without them nothing is compared and changed in one step.", redisScripts},
	{"clock", "R9", clockWhy, redisClock},
}

// Examine makes all checks. It writes nothing.
func (r Redis) Examine(ctx context.Context) (*Report, error) {
	options := *r.Options
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(&options)
	defer client.Close()
	report := &Report{Server: "redis at " + options.Addr}
	s := &redisServer{client: client, prefix: r.Prefix}
	if s.prefix == "" {
		s.prefix = "fencepost"
	}
	if err := client.Ping(ctx).Err(); err != nil && (!told(err) || unauthenticated(err)) {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, err)
	}
	var text string
	if text, s.hidden = client.Info(ctx, "all").Result(); s.hidden == nil {
		s.info = lines(text)
	} else if !told(s.hidden) {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, s.hidden)
	}
	var err error
	if report.Findings, err = examine(ctx, s, redisHidden, redisChecks); err != nil {
		return nil, fmt.Errorf("%s: %w", report.Server, err)
	}
	return report, nil
}

// unauthenticated reports whether the server has not let us in, which says
// nothing of its settings.
func unauthenticated(err error) bool {
	return strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "WRONGPASS")
}

// lines takes INFO apart.
func lines(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// said returns lines of INFO, all of which must be there.
func (s *redisServer) said(names ...string) (values []string, evidence string, err error) {
	if s.hidden != nil {
		return nil, "", s.hidden
	}
	var shown []string
	for _, name := range names {
		value, ok := s.info[name]
		if !ok {
			return nil, "", silentError("INFO has no " + name)
		}
		values = append(values, value)
		shown = append(shown, name+":"+value)
	}
	return values, strings.Join(shown, " "), nil
}

// set returns settings by CONFIG GET, all of which must be there.
func (s *redisServer) set(ctx context.Context, names ...string) (values []string, evidence string, err error) {
	var shown []string
	for _, name := range names {
		got, err := s.client.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, "", err
		}
		value, ok := got[name]
		if !ok {
			return nil, "", silentError("CONFIG GET has no " + name)
		}
		values = append(values, value)
		if value == "" {
			value = `""`
		}
		shown = append(shown, name+" "+value)
	}
	return values, strings.Join(shown, ", "), nil
}

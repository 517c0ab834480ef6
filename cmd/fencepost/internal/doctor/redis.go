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
	Prefix  string // of redistoken's keys; "" means "fencepost"
}

// redisServer is a server that has answered.
type redisServer struct {
	client *redis.Client
	prefix string
	info   map[string]string // of INFO
	hidden error             // why there is no info
}

// redisHidden is the fix if the user lacks a right.
const redisHidden = "let this user run INFO and CONFIG GET (ACL SETUSER … +info +config|get), or ask the administrator of the server"

var redisChecks = []check[*redisServer]{
	{"role", "", "A replica refuses every acquisition. A writable replica grants locks that its master grants too.", redisRole},
	{"version", "", "redistoken's scripts need Redis 5: in older versions a script that reads the clock cannot write.", judged((*redisServer).infoValues, redisVersion, "redis_version")},
	{"persistence", "R2", "A restart loses locks, which are then granted a second time, and numbers, which continue from the clock.", redisPersistence},
	{"settings", "R2", "A restart loses settings that CONFIG SET has changed and CONFIG REWRITE has not written.", redisWritten},
	{"disk", "R2", "If the file cannot be written, a restart does not find the data.", judged((*redisServer).infoValues, redisDisk, "rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status")},
	{"eviction", "R3", "If a lock is evicted, it is granted again. If a counter is evicted, its numbers start at the clock again.", judged((*redisServer).infoValues, redisEviction, "maxmemory_policy", "maxmemory", "evicted_keys")},
	{"memory", "R3", "A full Redis refuses acquisitions, or evicts keys.", judged((*redisServer).infoValues, redisMemory, "used_memory", "maxmemory")},
	{"counters", "R3", "If a counter expires, the numbers that it issued are lost.", redisCounters},
	{"replicas", "R1", "Replication is asynchronous: a promoted replica grants the last locks of its master again, under the same numbers.", redisReplicas},
	{"cluster", "R1", "Each master of a cluster has a part of the locks, with settings and replicas of its own.", redisCluster},
	{"scripts", "", "Grants, renewals and releases are scripts, which compare and change in one step.", redisScripts},
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
	if err := client.Ping(ctx).Err(); err != nil && (!isServerError(err) || unauthenticated(err)) {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, err)
	}
	var text string
	if text, s.hidden = client.Info(ctx, "all").Result(); s.hidden == nil {
		s.info = lines(text)
	} else if !isServerError(s.hidden) {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, s.hidden)
	}
	var err error
	if report.Findings, err = examine(ctx, s, redisHidden, redisChecks); err != nil {
		return nil, fmt.Errorf("%s: %w", report.Server, err)
	}
	return report, nil
}

// unauthenticated reports whether the server has refused the login. If AUTH is renamed,
// every answer is such an error, and quotes the password.
func unauthenticated(err error) bool {
	text := strings.ToLower(strings.ReplaceAll(err.Error(), "`", "'"))
	return strings.HasPrefix(text, "noauth") || strings.HasPrefix(text, "wrongpass") || strings.HasPrefix(text, "err unknown command 'auth'")
}

// lines parses INFO.
func lines(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// infoValues returns lines of INFO. It returns an error if one is missing.
func (s *redisServer) infoValues(_ context.Context, names ...string) (values []string, evidence string, err error) {
	if s.hidden != nil {
		return nil, "", s.hidden
	}
	var shown []string
	for _, name := range names {
		value, ok := s.info[name]
		if !ok {
			return nil, "", missingError("INFO has no " + name)
		}
		values = append(values, value)
		shown = append(shown, name+":"+value)
	}
	return values, strings.Join(shown, " "), nil
}

// configValues returns settings by CONFIG GET. It returns an error if one is missing.
func (s *redisServer) configValues(ctx context.Context, names ...string) (values []string, evidence string, err error) {
	var shown []string
	for _, name := range names {
		got, err := s.client.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, "", err
		}
		value, ok := got[name]
		if !ok {
			return nil, "", missingError("CONFIG GET has no " + name)
		}
		values = append(values, value)
		if value == "" {
			value = `""`
		}
		shown = append(shown, name+" "+value)
	}
	return values, strings.Join(shown, ", "), nil
}

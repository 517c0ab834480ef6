package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a server to be examined.
type Redis struct {
	Options *redis.Options
	Prefix  string // of redistoken's keys; "" means "fencepost"

	client *redis.Client     // of Examine
	lines  map[string]string // of INFO
	hidden error             // why there are none
}

// redisHidden is the fix if the user lacks a right.
const redisHidden = "let this user run INFO and CONFIG GET (ACL SETUSER … +info +config|get), or ask the administrator of the server"

func (s *Redis) checks() []check {
	const noeviction = "CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE; or a Redis of its own for locks"
	const rewrite = "CONFIG RESETSTAT; CONFIG REWRITE; or put the settings on the command line of a server without a file"
	return []check{
		{"role", "", "A replica refuses every acquisition. Each master of a cluster has a part of the locks.", s.reads("role redis_mode", func(v []string) []rule {
			return []rule{{v[0] != "master", Fail, "", "give the master's URL, or a name that follows it"},
				{v[1] == "cluster", Warn, ": this node alone was examined", "give --redis once for each master"}}
		})},
		{"persistence", "R2", "A restart loses locks, which are then granted a second time, and numbers, which continue from the clock.", s.persistence},
		// The server does not show its file, but counts its commands. The counts show no order. CONFIG
		// RESETSTAT sets them to 0 and counts itself, so the CONFIG REWRITE of the fix follows it, and a
		// CONFIG SET in between is counted. Redis 7 counts each of them apart. This client has sent PING.
		{"settings", "R2", "A restart loses settings that CONFIG SET has changed and CONFIG REWRITE has not written.", s.reads("config_file", func([]string) []rule {
			sets, rewrites, resets := s.calls("config|set"), s.calls("config|rewrite"), s.calls("config|resetstat")
			counts := fmt.Sprintf(", CONFIG SET %d times, CONFIG REWRITE %d, CONFIG RESETSTAT %d", sets, rewrites, resets)
			return []rule{{s.calls("ping") == 0, Unknown, ", and INFO has no commandstats", redisHidden},
				{s.calls("config") > 0, Warn, ": before Redis 7 the server does not show whether settings were changed since its start", rewrite},
				{sets > 0 || resets > 0 && rewrites == 0, Warn, counts + ": a restart may go back to the file or the command line", rewrite}}
		})},
		// INFO has the policy too, because some servers hide CONFIG. Locks and queues have a ttl, so a
		// policy for volatile keys evicts them first.
		{"eviction", "R3", "If a lock is evicted, it is granted again. If a counter is evicted, its numbers start at the clock again.", s.reads("maxmemory_policy maxmemory evicted_keys", func(v []string) []rule {
			return []rule{{v[0] != "noeviction" && v[1] != "0", Fail, ": locks have a ttl, and are evicted", noeviction},
				{v[0] != "noeviction", Warn, ": nothing is evicted while maxmemory is not set", noeviction},
				{v[2] != "0", Warn, ": keys were evicted before, under another policy", "CONFIG RESETSTAT, once you know what was lost"}}
		})},
		{"replicas", "R1", "Replication is asynchronous: a promoted replica grants the last locks of its master again, under the same numbers.", s.replicas},
		{"scripts", "", "Grants, renewals and releases are scripts, which compare and change in one step.", s.scripts},
		{"clock", "R9", clockWhy, func(ctx context.Context) (answer, error) {
			return clock(ctx, 0, func(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() })
		}},
	}
}

// Examine makes all checks. It writes nothing.
func (s Redis) Examine(ctx context.Context) (*Report, error) {
	s.client, s.lines, s.Prefix = redis.NewClient(s.Options), map[string]string{}, cmp.Or(s.Prefix, "fencepost")
	defer s.client.Close()
	report := &Report{Server: "redis at " + s.Options.Addr}
	err := s.client.Ping(ctx).Err()
	if err == nil || isServerError(err) && !unauthenticated(err) {
		var text string
		if text, err = s.client.Info(ctx, "all").Result(); err != nil && isServerError(err) {
			s.hidden, err = err, nil
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			s.lines[name] = value
		}
		if s.lines["redis_mode"] == "sentinel" {
			s.lines["role"] = "sentinel"
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", report.Server, err)
	}
	return report.examine(ctx, redisHidden, s.checks())
}

// unauthenticated reports whether the server has refused the login. If AUTH is renamed,
// every answer is such an error, and quotes the password.
func unauthenticated(err error) bool {
	text := strings.ToLower(strings.ReplaceAll(err.Error(), "`", "'"))
	return strings.HasPrefix(text, "noauth") || strings.HasPrefix(text, "wrongpass") || strings.HasPrefix(text, "err unknown command 'auth'")
}

// reads returns the look function of a check that asks for these names.
func (s *Redis) reads(names string, rules func(v []string) []rule) func(context.Context) (answer, error) {
	return func(ctx context.Context) (answer, error) {
		values, evidence, err := s.ask(ctx, strings.Fields(names)...)
		if err != nil {
			return answer{}, err
		}
		return judge(evidence, rules(values)...)
	}
}

// ask returns lines of INFO, or settings by CONFIG GET, and the text that shows them. It
// returns an error if the server has one in neither.
func (s *Redis) ask(ctx context.Context, names ...string) (values []string, evidence string, err error) {
	for i, name := range names {
		value, ok := s.lines[name]
		if !ok {
			got, err := s.client.ConfigGet(ctx, name).Result()
			if value, ok = got[name]; !ok {
				return nil, "", cmp.Or(err, s.hidden, fmt.Errorf("%w %s", errMissing, name))
			}
		}
		if i > 0 {
			evidence += ", "
		}
		values, evidence = append(values, value), evidence+name+":"+cmp.Or(value, `""`)
	}
	return values, evidence, nil
}

// persistence uses INFO if CONFIG is hidden: it shows whether there is an append-only file.
func (s *Redis) persistence(ctx context.Context) (answer, error) {
	const fix = "CONFIG SET appendonly yes; CONFIG SET appendfsync always; CONFIG SET no-appendfsync-on-rewrite no; CONFIG REWRITE"
	set, evidence, err := s.ask(ctx, "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save")
	if err != nil {
		if s.lines["aof_enabled"] == "0" {
			return answer{Fail, "aof_enabled:0: a restart finds a snapshot at most", fix}, nil
		}
		return answer{}, err
	}
	appendOnly, fsync := set[0] == "yes", set[1]
	return judge(evidence,
		rule{!appendOnly && set[3] == "", Fail, ": a restart loses everything", fix},
		rule{!appendOnly, Fail, ": a restart goes back to the last snapshot", fix},
		rule{fsync == "everysec", Warn, ": a crash of the machine loses up to two seconds", fix},
		rule{fsync != "always", Fail, ": the system decides when to write", fix},
		rule{set[2] != "no", Warn, ": while the file is rewritten, no write waits for the disk", fix})
}

// calls returns how often a command has succeeded.
func (s *Redis) calls(command string) int {
	var all, failed, skipped int
	var each float64
	_, _ = fmt.Sscanf(s.lines["cmdstat_"+command], "calls=%d,usec=%d,usec_per_call=%f,rejected_calls=%d,failed_calls=%d", &all, &skipped, &each, &skipped, &failed)
	return all - failed
}

// replicas passes no server with replicas: with either setting some grants can be lost.
func (s *Redis) replicas(ctx context.Context) (answer, error) {
	values, evidence, err := s.ask(ctx, "connected_slaves")
	if err != nil || values[0] == "0" {
		return answer{Pass, evidence + ": there is none to promote", ""}, err
	}
	set, settings, err := s.ask(ctx, "min-replicas-to-write", "min-replicas-max-lag")
	if err != nil {
		return answer{}, err
	}
	return judge(evidence+", "+settings, rule{set[0] == "0", Warn, ": a master that is cut off continues to grant",
		"CONFIG SET min-replicas-to-write 1; CONFIG SET min-replicas-max-lag 1; CONFIG REWRITE; and redistoken.Issuer.Replicas, or redisquorum"},
		rule{true, Warn, ": a master that is cut off continues to grant for the allowed lag", "redistoken.Issuer.Replicas, or redisquorum, if that is too long"})
}

// scripts runs a script that reads what redistoken's scripts read.
func (s *Redis) scripts(ctx context.Context) (answer, error) {
	key := s.Prefix + ":{0}:counter"
	err := s.client.Eval(ctx, "redis.call('GET', KEYS[1]); return redis.call('TIME')[1]", []string{key}).Err()
	switch {
	case err == nil:
		return answer{Pass, "EVAL, GET and TIME are allowed on " + key, ""}, nil
	case strings.HasPrefix(err.Error(), "MOVED"):
		return answer{Pass, "EVAL is allowed, and another node has " + key, ""}, nil
	case !isServerError(err) || errors.Is(err, redis.Nil):
		return answer{}, err
	}
	kind, _, _ := strings.Cut(err.Error(), " ")
	fixes := map[string]string{"CLUSTERDOWN": "redis-cli --cluster check, then redis-cli --cluster fix", "WRONGTYPE": "DEL " + key + ": numbers continue at the clock"}
	return answer{Fail, err.Error(), cmp.Or(fixes[kind], "ACL SETUSER … ~"+s.Prefix+":* &"+s.Prefix+":* +@scripting +@read +@write +@pubsub +time")}, nil
}

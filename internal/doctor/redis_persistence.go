package doctor

import (
	"context"
	"strings"
)

const durably = "CONFIG SET appendonly yes; CONFIG SET appendfsync always; CONFIG SET no-appendfsync-on-rewrite no; CONFIG REWRITE"

// redisPersistence needs no CONFIG to see that there is no append-only file.
func redisPersistence(ctx context.Context, s *redisServer) (answer, error) {
	set, evidence, err := s.set(ctx, "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save")
	if err != nil {
		on, evidence, hidden := s.said("aof_enabled")
		if hidden == nil && on[0] == "0" {
			return fail(evidence+": a restart finds a snapshot at most", durably)
		}
		return answer{}, err
	}
	appendOnly, fsync, paused := set[0] == "yes", set[1], set[2] == "yes"
	switch {
	case !appendOnly && set[3] == "":
		return fail(evidence+": a restart forgets everything", durably)
	case !appendOnly:
		return fail(evidence+": a restart goes back to the last snapshot", durably)
	case fsync == "no":
		return fail(evidence+": the system writes when it likes", durably)
	case fsync == "everysec":
		return warn(evidence+": a crash of the machine forgets up to two seconds", durably)
	case paused:
		return warn(evidence+": while the file is rewritten, nothing waits for the disk", durably)
	}
	return pass("%s", evidence)
}

// redisDisk says how the last writes went.
func redisDisk(_ context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.said("rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status")
	if err != nil {
		return answer{}, err
	}
	for _, value := range values {
		if !strings.HasPrefix(value, "ok") {
			return fail(evidence, "look into the server's log for the reason: a full disk, a right that is missing, a fork that failed")
		}
	}
	return pass("%s", evidence)
}

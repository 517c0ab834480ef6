package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

const durably = "CONFIG SET appendonly yes; CONFIG SET appendfsync always; CONFIG SET no-appendfsync-on-rewrite no; CONFIG REWRITE"

// redisPersistence uses INFO if CONFIG is hidden: it shows whether there is an append-only
// file.
func redisPersistence(ctx context.Context, s *redisServer) (answer, error) {
	set, evidence, err := s.configValues(ctx, "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save")
	if err != nil {
		on, evidence, hidden := s.infoValues(ctx, "aof_enabled")
		if hidden == nil && on[0] == "0" {
			return fail(evidence+": a restart finds a snapshot at most", durably)
		}
		return answer{}, err
	}
	appendOnly, fsync, paused := set[0] == "yes", set[1], set[2] == "yes"
	switch {
	case !appendOnly && set[3] == "":
		return fail(evidence+": a restart loses everything", durably)
	case !appendOnly:
		return fail(evidence+": a restart goes back to the last snapshot", durably)
	case fsync == "no":
		return fail(evidence+": the system decides when to write", durably)
	case fsync == "everysec":
		return warn(evidence+": a crash of the machine loses up to two seconds", durably)
	case paused:
		return warn(evidence+": while the file is rewritten, no write waits for the disk", durably)
	}
	return pass(evidence)
}

// redisWritten uses the server's counts of its commands, because the server does not show
// its file. A failed CONFIG REWRITE, as without a file, does not count. The counts show no
// order. CONFIG RESETSTAT sets both to 0 and counts itself, so the CONFIG REWRITE of the
// fix follows it, and a CONFIG SET in between is counted.
func redisWritten(ctx context.Context, s *redisServer) (answer, error) {
	values, evidence, err := s.infoValues(ctx, "config_file")
	if err != nil {
		return answer{}, err
	}
	if s.info["cmdstat_ping"] == "" { // this client's own
		return answer{}, missingError("INFO has no commandstats")
	}
	sets, rewrites := s.calls("config|set"), s.calls("config|rewrite")
	evidence += fmt.Sprintf(", CONFIG SET %d times, CONFIG REWRITE %d", sets, rewrites)
	fix := "CONFIG REWRITE"
	switch {
	case sets > 0 && rewrites > 0:
		return warn(evidence+": the server does not show which came last", "CONFIG RESETSTAT; CONFIG REWRITE")
	case rewrites > 0:
		return pass(evidence)
	case s.calls("config") > 0: // Redis 7 counts each of them apart
		evidence += ": before Redis 7 the server does not show whether settings were changed since its start"
		fix += "; before Redis 7 this warning stays"
	case sets > 0:
		evidence += ": settings were changed since the start, and not written"
	case s.calls("config|resetstat") > 0:
		evidence += ": CONFIG RESETSTAT has removed the count of settings that were changed before"
	default:
		return pass(evidence + ": no setting was changed since the start")
	}
	if values[0] == "" {
		return warn(evidence+", and there is no file: a restart goes back to the command line",
			"put the server's present settings on its command line or into a file")
	}
	return warn(evidence+": a restart goes back to the file", fix)
}

// calls returns how often a command has succeeded.
func (s *redisServer) calls(command string) (n int) {
	for field := range strings.SplitSeq(s.info["cmdstat_"+command], ",") {
		name, text, _ := strings.Cut(field, "=")
		count, _ := strconv.Atoi(text)
		switch name {
		case "calls":
			n += count
		case "failed_calls":
			n -= count
		}
	}
	return n
}

// redisDisk checks whether the last writes succeeded.
func redisDisk(evidence string, values []string) (answer, error) {
	for _, value := range values {
		if !strings.HasPrefix(value, "ok") {
			return fail(evidence, "see the server's log for the reason: a full disk, a missing right, a failed fork")
		}
	}
	return pass(evidence)
}

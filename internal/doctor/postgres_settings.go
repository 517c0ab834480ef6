package doctor

import (
	"context"
	"fmt"
	"time"
)

func postgresRole(ctx context.Context, s *postgresServer) (answer, error) {
	var standby bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_catalog.pg_is_in_recovery()").Scan(&standby); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("pg_is_in_recovery() is %t", standby)
	if standby {
		return fail(evidence, "give the primary's URL, as with target_session_attrs=read-write")
	}
	return pass("%s", evidence)
}

func postgresVersion(ctx context.Context, s *postgresServer) (answer, error) {
	version, err := s.setting(ctx, "server_version")
	if err != nil {
		return answer{}, err
	}
	var major int
	if _, err := fmt.Sscanf(version, "%d", &major); err != nil {
		return answer{}, silentError("server_version is " + version)
	}
	switch evidence := "server_version is " + version; {
	case major < 13:
		return fail(evidence, "upgrade the server")
	case major < 14:
		return warn(evidence, "pgtoken.Issuer, or upgrade the server")
	default:
		return pass("%s", evidence)
	}
}

func postgresFsync(ctx context.Context, s *postgresServer) (answer, error) {
	fsync, err := s.setting(ctx, "fsync")
	if err != nil {
		return answer{}, err
	}
	pages, err := s.setting(ctx, "full_page_writes")
	if err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("fsync is %s, full_page_writes is %s", fsync, pages)
	if fsync != "on" || pages != "on" {
		return fail(evidence, "ALTER SYSTEM RESET fsync; ALTER SYSTEM RESET full_page_writes; SELECT pg_reload_conf()")
	}
	return pass("%s", evidence)
}

func postgresCommit(ctx context.Context, s *postgresServer) (answer, error) {
	value, err := s.setting(ctx, "synchronous_commit")
	if err != nil {
		return answer{}, err
	}
	evidence := "synchronous_commit of this session is " + value
	switch value {
	case "on", "remote_apply":
		return pass("%s", evidence)
	}
	return warn(evidence, "ALTER ROLE … SET synchronous_commit = on, or where it was set: ALTER DATABASE, ALTER SYSTEM, the URL")
}

func postgresTriggers(ctx context.Context, s *postgresServer) (answer, error) {
	value, err := s.setting(ctx, "session_replication_role")
	if err != nil {
		return answer{}, err
	}
	evidence := "session_replication_role of this session is " + value
	if value == "replica" {
		return fail(evidence, "ALTER ROLE … RESET session_replication_role, or where it was set")
	}
	return pass("%s", evidence)
}

// idleLeast is shorter than the pauses that a healthy program makes.
const idleLeast = 5 * time.Minute

func postgresIdle(ctx context.Context, s *postgresServer) (answer, error) {
	var shown string
	var seconds float64
	if err := s.ask(ctx, "postgres_idle.sql", nil, &shown, &seconds); err != nil {
		return answer{}, err
	}
	evidence := "idle_session_timeout of this session is " + shown
	if seconds > 0 && seconds < idleLeast.Seconds() {
		return warn(evidence, "ALTER ROLE … SET idle_session_timeout = 0: pools and TCP keepalives end what is not used")
	}
	return pass("%s", evidence)
}

func postgresClock(ctx context.Context, s *postgresServer) (answer, error) {
	o, err := measure(ctx, func(ctx context.Context) (at time.Time, err error) {
		err = s.conn.QueryRow(ctx, "SELECT pg_catalog.clock_timestamp()").Scan(&at)
		return at, err
	})
	if err != nil {
		return answer{}, err
	}
	return o.judge()
}

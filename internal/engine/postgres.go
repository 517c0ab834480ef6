package engine

import (
	"regexp"
	"strconv"
	"strings"
)

// PostgresQuery queries the two arguments of [CheckPostgres]: one row of two text
// columns. It needs no rights, writes and locks nothing, works on a standby, and is one
// statement in every mode of the protocol.
const PostgresQuery = `SELECT pg_catalog.version(), coalesce((SELECT pg_catalog.string_agg(extname::text, ',') ` +
	`FROM pg_catalog.pg_extension WHERE extname IN ('citus', 'bdr', 'pgactive', 'spock', 'multimaster')), '')`

// oldest is the first major version that package migrations supports.
const oldest = 13

// postgresVersion matches version() of PostgreSQL: the version, a packager's suffix, the
// platform (absent on Windows before 17), the compiler, the word size. A fork that adds
// anything else does not match.
var postgresVersion = regexp.MustCompile(`^PostgreSQL (\d+)((?:\.\d+){0,2}(?:devel|alpha\d+|beta\d+|rc\d+)?)` +
	`(?:-(?i:rds)\.\d+|-R\d+)?` + // Amazon RDS Extended Support
	`(?: \((?:(?:Debian|Ubuntu|Raspbian|Devuan) [^()]+|Homebrew(?: [^()]+)?|Postgres\.app|[0-9a-f]{7,40})\)` + // the last is Neon's
	`| - Percona (?:Distribution|Server for PostgreSQL [0-9.]+))?` +
	`(?: on [^ ,]+)?, compiled by .+, (?:32|64)-bit$`)

// lookAlikes are other engines that implement version(), found by a substring of its
// result.
var lookAlikes = []struct{ sign, engine, reason string }{
	{"CockroachDB", "CockroachDB", "its advisory locks lock nothing before 26.2, and later versions were never tried: keep the marks in a PostgreSQL"},
	{"-YB-", "YugabyteDB", "its READ COMMITTED is a snapshot unless yb_enable_read_committed_isolation is set, and no setting was tried: keep the marks in a PostgreSQL"},
	{"Redshift", "Amazon Redshift", "it has no advisory locks: keep the marks in a PostgreSQL"},
	{"Greenplum", "Greenplum", "its segments have advisory locks of their own: keep the marks in a PostgreSQL"},
	{"Cloudberry", "Cloudberry", "its segments have advisory locks of their own: keep the marks in a PostgreSQL"},
	{"Materialize", "Materialize", "it has no advisory locks: keep the marks in a PostgreSQL"},
	{"RisingWave", "RisingWave", "it has no advisory locks: keep the marks in a PostgreSQL"},
	{"CrateDB", "CrateDB", "it has no transactions: keep the marks in a PostgreSQL"},
	{"openGauss", "openGauss", "it is a fork of PostgreSQL 9.2: keep the marks in a PostgreSQL"},
	{"GaussDB", "GaussDB", "it is a fork of PostgreSQL 9.2: keep the marks in a PostgreSQL"},
	{"MogDB", "MogDB", "it is a fork of PostgreSQL 9.2: keep the marks in a PostgreSQL"},
	{"EnterpriseDB Advanced Server", "EDB Postgres Advanced Server", "it was never tried: " + vouch},
}

// clusters are extensions with which several servers accept writes.
var clusters = map[string]string{
	"citus":       "its advisory locks are one node's, so that two nodes that take queries admit two writers: send every write to one coordinator, and " + vouchOne,
	"bdr":         severalWriters,
	"pgactive":    severalWriters,
	"spock":       severalWriters,
	"multimaster": severalWriters,
}

const (
	severalWriters = "it replicates between nodes that all write, and each has advisory locks of its own: send every write to one node, and " + vouchOne
	vouch          = "have fencepost doctor prove the locks and the isolation, and set DangerouslyTrustEngine"
	vouchOne       = "set DangerouslyTrustEngine to say so"
)

// CheckPostgres returns nil for an engine that is known to fence as PostgreSQL 13 and
// later do, and an [*Error] for every other. The arguments are the columns of
// [PostgresQuery]: the result of version(), and the relevant extensions that are
// installed, separated by commas.
func CheckPostgres(version, extensions string) error {
	for _, other := range lookAlikes {
		if strings.Contains(version, other.sign) {
			return &Error{Engine: other.engine + " (" + shortened(version) + ")", Reason: other.reason}
		}
	}
	parts := postgresVersion.FindStringSubmatch(version)
	if parts == nil {
		return &Error{Engine: shortened(version), Reason: "version() does not answer as PostgreSQL does: " + vouch}
	}
	name := "PostgreSQL " + parts[1] + parts[2]
	if major, err := strconv.Atoi(parts[1]); err != nil || major < oldest {
		return &Error{Engine: name, Reason: "the oldest version that is supported is " + strconv.Itoa(oldest)}
	}
	for extension := range strings.SplitSeq(extensions, ",") {
		if extension == "" {
			continue
		}
		reason, known := clusters[extension]
		if !known {
			reason = severalWriters
		}
		return &Error{Engine: name + " with the extension " + extension, Reason: reason}
	}
	return nil
}

// shortened returns the version without its compiler, which may be long.
func shortened(version string) string {
	const most = 100
	version, _, _ = strings.Cut(version, ", compiled by ")
	if len(version) > most {
		version = strings.ToValidUTF8(version[:most], "") + "…"
	}
	if version == "" {
		return "an engine without a version"
	}
	return version
}

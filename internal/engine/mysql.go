package engine

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MySQLQuery queries the variables that [CheckMySQL] reads; few engines have all. A missing
// variable is no error, unlike in SELECT @@name. The query needs no rights, locks nothing,
// and takes no snapshot. A proxy that replies to SELECT @@version by itself forwards it.
const MySQLQuery = `SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only', 'innodb_read_only', 'wsrep_provider', ` +
	`'group_replication_group_name', 'group_replication_single_primary_mode', 'group_replication_consistency', ` +
	`'tidb_enable_noop_functions', 'tidb_enable_shared_lock_promotion', 'memsql_version')`

// AskMySQL runs [MySQLQuery] and returns the values by lower-case name.
func AskMySQL(ctx context.Context, from interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}) (map[string]string, error) {
	rows, err := from.QueryContext(ctx, MySQLQuery)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	vars := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		vars[strings.ToLower(name)] = value
	}
	return vars, rows.Err()
}

var (
	// mariadbVersion matches 10.11.19-MariaDB-0+deb12u1-log,
	// 10.6.15-10-MariaDB-enterprise-log, …
	mariadbVersion = regexp.MustCompile(`^(?:5\.5\.5-)?(\d+)\.(\d+)\.\d+(?:-\d+)?-MariaDB(?:-[-\w.+~:]+)?$`)
	// mysqlVersion matches 8.0.36, with suffixes of packagers and services: 8.0.36-28 (Percona),
	// 8.0.39-0ubuntu0.22.04.1, 5.7.44-rds.20240529, 8.0.31-google, 8.0.40-azure, 8.0.35-u2-cloud.
	mysqlVersion = regexp.MustCompile(`^(\d+)\.(\d+)\.\d+(?:-(?:log|debug|valgrind|standard|community|commercial|enterprise|advanced|` +
		`google|azure|cloud|u\d+|rds\.\d+|\d+(?:[.+~]\w+)*|\d+ubuntu[\w.+~]+))*$`)
	auroraVersion = regexp.MustCompile(`^(\d+)\.(\d+)\.mysql_aurora\.\d[\d.]*$`)
	mysqlComment  = regexp.MustCompile(`^(?:MySQL (?:Community|Enterprise)\b(?: .*)?|Percona Server\b.*|Source distribution|\((?:Debian|Ubuntu|Google)\)|Homebrew)$`)
)

const (
	elsewhere  = ": keep the marks in a MySQL or a MariaDB"
	severalSQL = "its nodes take writes side by side, and a share lock is one node's" + elsewhere
	untried    = "it was never tried" + elsewhere
)

// speakers are engines that speak MySQL's protocol, found by a substring of version or
// version_comment, in lower case.
var speakers = []struct{ sign, engine, reason string }{
	{"vitess", "Vitess", "its locks are one shard's, and it was never tried" + elsewhere},
	{"planetscale", "PlanetScale", "its locks are one shard's, and it was never tried" + elsewhere},
	{"oceanbase", "OceanBase", untried},
	{"singlestore", "SingleStore", untried},
	{"memsql", "SingleStore", untried},
	{"dolt", "Dolt", "its transactions merge, and take no locks on rows" + elsewhere},
	{"starrocks", "StarRocks", "it has no locks on rows" + elsewhere},
	{"doris", "Apache Doris", "it has no locks on rows" + elsewhere},
	{"clickhouse", "ClickHouse", "it has no locks on rows" + elsewhere},
	{"xpand", "Xpand", severalSQL},
	{"clustrix", "ClustrixDB", severalSQL},
	{"tddl", "PolarDB-X", untried},
	{"-cluster", "MySQL NDB Cluster", "what its SQL nodes lock in InnoDB is one node's, and NDB was never tried" + elsewhere},
	{"mysql cluster", "MySQL NDB Cluster", "what its SQL nodes lock in InnoDB is one node's, and NDB was never tried" + elsewhere},
	{"wsrep", "Galera", galeraReason},
	{"xtradb cluster", "Percona XtraDB Cluster", galeraReason},
}

const galeraReason = "a share lock is one node's, its certification compares written rows alone, and a server cannot tell on how many nodes writers are: " +
	"send every write to one node, and " + vouchOne + "; on a server that is in no cluster unset wsrep_provider"

// CheckMySQL returns nil for a server that is known to fence as InnoDB on one primary
// does, and an [*Error] for every other. vars are the rows of [MySQLQuery]. A variable
// that the server lacks is missing in them.
func CheckMySQL(vars map[string]string) error {
	name, err := mysqlEngine(vars)
	switch {
	case err != nil:
		return err
	case set(vars["wsrep_provider"]) && !strings.EqualFold(vars["wsrep_provider"], "none"):
		// wsrep_on is a session variable. OFF on a cluster's node does not make it safe:
		// it makes replication worse.
		return &Error{Engine: "Galera (" + name + ")", Reason: galeraReason}
	case set(vars["read_only"]) || set(vars["innodb_read_only"]):
		return &Error{Engine: name, Reason: "read_only or innodb_read_only is set, as on a replica, whose marks are of before: connect to the primary"}
	case vars["group_replication_group_name"] != "":
		return checkGroup(name, vars)
	}
	return nil
}

// checkGroup checks a server that belongs to a replication group. It does not check
// whether the group is running, since that requires a privilege.
//
// EVENTUAL is refused because of the MySQL 8.4 manual ("Configuring Transaction
// Consistency Guarantees"): "in the event of a primary failover, the new primary can
// accept new read-only and read/write transactions before the previous primary
// transactions are all applied". A stale writer does not see a claim among those, and
// certification compares written rows only. Versions without the variable always behave
// like that.
func checkGroup(name string, vars map[string]string) error {
	name = "Group Replication (" + name + ")"
	if !strings.EqualFold(vars["group_replication_single_primary_mode"], "ON") {
		return &Error{Engine: name, Reason: "group_replication_single_primary_mode is not ON: every member takes writes, and a share lock is one member's: " +
			"switch to single-primary mode, or send every write to one member and " + vouchOne}
	}
	switch level := strings.ToUpper(vars["group_replication_consistency"]); level {
	case "BEFORE_ON_PRIMARY_FAILOVER", "BEFORE", "AFTER", "BEFORE_AND_AFTER":
		return nil
	default:
		return &Error{Engine: name, Reason: "group_replication_consistency is " + cmp.Or(level, "not there") + ": a new primary takes writes before it has applied " +
			"the claims of the one before: SET PERSIST group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER'"}
	}
}

// mysqlEngine returns the engine's name if it is on the allowlist.
func mysqlEngine(vars map[string]string) (name string, err error) {
	version, comment := vars["version"], vars["version_comment"]
	said := shortened(strings.Trim(version+", "+comment, ", "))
	if strings.Contains(version, "TiDB") || strings.Contains(comment, "TiDB") {
		return "", &Error{Engine: "TiDB (" + shortened(version) + ")", Reason: tidbReason(vars)}
	}
	if set(vars["memsql_version"]) {
		return "", &Error{Engine: "SingleStore (" + said + ")", Reason: untried}
	}
	signs := strings.ToLower(version + " " + comment)
	for _, other := range speakers {
		if strings.Contains(signs, other.sign) {
			return "", &Error{Engine: other.engine + " (" + said + ")", Reason: other.reason}
		}
	}
	if parts := mariadbVersion.FindStringSubmatch(version); parts != nil {
		return atLeast("MariaDB "+shortened(version), parts, 10, 2)
	}
	if parts := auroraVersion.FindStringSubmatch(version); parts != nil {
		return atLeast("Aurora MySQL "+version, parts, 5, 7)
	}
	if parts := mysqlVersion.FindStringSubmatch(version); parts != nil && mysqlComment.MatchString(comment) {
		return atLeast("MySQL "+version, parts, 5, 7)
	}
	return "", &Error{Engine: said, Reason: "version and version_comment do not answer as MySQL's and MariaDB's do: try on two connections that FOR UPDATE waits for LOCK IN SHARE MODE, and set DangerouslyTrustEngine"}
}

func tidbReason(vars map[string]string) string {
	noop := cmp.Or(vars["tidb_enable_noop_functions"], "OFF")
	switch {
	case set(vars["tidb_enable_shared_lock_promotion"]):
		return "tidb_enable_shared_lock_promotion is ON, so that LOCK IN SHARE MODE locks, which is not supported yet" + elsewhere
	case set(noop):
		return "tidb_enable_noop_functions is " + noop + ", so that LOCK IN SHARE MODE is accepted and locks nothing" + elsewhere
	}
	return "tidb_enable_noop_functions is " + noop + ", so that LOCK IN SHARE MODE is an error, and on some versions accepted without a lock" + elsewhere
}

// atLeast compares the major and minor version in parts.
func atLeast(name string, parts []string, major, minor int) (string, error) {
	m, err := strconv.Atoi(parts[1])
	n, err2 := strconv.Atoi(parts[2])
	if err != nil || err2 != nil || m < major || m == major && n < minor {
		return "", &Error{Engine: name, Reason: "the oldest version that is supported is " + strconv.Itoa(major) + "." + strconv.Itoa(minor)}
	}
	return name, nil
}

// set reports whether a variable exists and is not off.
func set(value string) bool { return value != "" && value != "0" && !strings.EqualFold(value, "OFF") }

// Errors that deny a right. Error numbers: MySQL 8.0 Error Message Reference.
const (
	mysqlDeniedDatabase = 1044
	mysqlDeniedTable    = 1142
	mysqlDeniedColumn   = 1143
)

// MySQLDenied reports whether the server has denied the account a right.
func MySQLDenied(err error) bool {
	switch MySQLNumber(err) {
	case mysqlDeniedDatabase, mysqlDeniedTable, mysqlDeniedColumn:
		return true
	}
	return false
}

// TableRights are the rights that a program needs on one table, as in "SELECT, UPDATE".
type TableRights struct{ Table, Rights string }

// MySQLRights are the rights of a program that writes under a guard.
var MySQLRights = []TableRights{{"fencepost_marks", "SELECT, INSERT, UPDATE"}, {"fencepost_floor", "SELECT"}}

// MySQLGrants returns the statements that grant rights to the session's account on tables of
// its database, on one line.
func MySQLGrants(ctx context.Context, from Rower, rights ...TableRights) (string, error) {
	var database, account string
	if err := from.QueryRowContext(ctx, "SELECT DATABASE(), CURRENT_USER()").Scan(&database, &account); err != nil {
		return "", err
	}
	at := strings.LastIndexByte(account, '@') // a name may have an @, a host may not
	name, host := account[:max(at, 0)], account[at+1:]
	grants := make([]string, len(rights))
	for i, r := range rights {
		grants[i] = fmt.Sprintf("GRANT %s ON %s.%s TO '%s'@'%s'", r.Rights, MySQLIdent(database), r.Table,
			strings.ReplaceAll(name, "'", "''"), strings.ReplaceAll(host, "'", "''"))
	}
	return strings.Join(grants, "; "), nil
}

// MySQLIdent returns name as a quoted identifier.
func MySQLIdent(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

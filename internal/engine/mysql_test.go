package engine_test

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// answer returns a server's variables, with more of them in pairs.
func answer(version, comment string, more ...string) map[string]string {
	vars := map[string]string{"version": version, "version_comment": comment, "read_only": "OFF", "innodb_read_only": "OFF"}
	for i := 0; i < len(more); i += 2 {
		vars[more[i]] = more[i+1]
	}
	return vars
}

// hazard M1
func TestMySQLAndMariaDBAreKnown(t *testing.T) {
	t.Parallel()
	for name, vars := range map[string]map[string]string{
		"MariaDB, Debian":      answer("10.11.19-MariaDB-0+deb12u1-log", "Debian 12", "wsrep_on", "OFF", "wsrep_provider", "none"),
		"MariaDB, the image":   answer("11.4.2-MariaDB-ubu2404", "mariadb.org binary distribution", "wsrep_provider", ""),
		"MariaDB, an old one":  answer("10.3.39-MariaDB-1:10.3.39+maria~ubu2004-log", "mariadb.org binary distribution"),
		"MariaDB, the oldest":  answer("10.2.44-MariaDB", "MariaDB Server"),
		"MariaDB Enterprise":   answer("10.6.15-10-MariaDB-enterprise-log", "MariaDB Enterprise Server"),
		"MariaDB, cPanel":      answer("10.6.18-MariaDB-cll-lve", "MariaDB Server"),
		"MariaDB, Homebrew":    answer("11.5.2-MariaDB", "Homebrew"),
		"MariaDB on RDS":       answer("10.6.14-MariaDB-log", "managed by https://aws.amazon.com/rds/"),
		"MariaDB, Azure":       answer("5.5.5-10.3.23-MariaDB", "MariaDB Server"),
		"MySQL Community":      answer("8.0.36", "MySQL Community Server - GPL"),
		"MySQL 5.7":            answer("5.7.44-log", "MySQL Community Server (GPL)"),
		"MySQL Enterprise":     answer("8.4.2", "MySQL Enterprise Server - Commercial"),
		"MySQL Enterprise 5.7": answer("5.7.35-enterprise-commercial-advanced-log", "MySQL Enterprise Server - Advanced Edition (Commercial)"),
		"HeatWave":             answer("9.0.1-cloud", "MySQL Enterprise - Cloud"),
		"HeatWave, updated":    answer("8.0.35-u2-cloud", "MySQL Enterprise - Cloud"),
		"Percona Server":       answer("8.0.36-28", "Percona Server (GPL), Release 28, Revision 47601f19"),
		"Percona Server 5.7":   answer("5.7.44-48-log", "Percona Server (GPL), Release 48, Revision 497f936a373"),
		"Percona Server 8.0.x": answer("8.0.42-33.1", "Percona Server (GPL), Release 33.1"),
		"Ubuntu":               answer("8.0.39-0ubuntu0.22.04.1", "(Ubuntu)"),
		"Ubuntu 18.04":         answer("5.7.42-0ubuntu0.18.04.1-log", "(Ubuntu)"),
		"Debian":               answer("8.0.42-1", "(Debian)"),
		"Homebrew":             answer("9.1.0", "Homebrew"),
		"RDS":                  answer("8.0.35", "Source distribution"),
		"RDS, extended":        answer("5.7.44-rds.20240529-log", "Source distribution"),
		"Aurora":               answer("8.0.mysql_aurora.3.04.0", "Source distribution"),
		"Aurora, as MySQL":     answer("8.0.28", "Source distribution", "aurora_version", "3.04.0"),
		"Aurora 2":             answer("5.7.mysql_aurora.2.11.2", "MySQL Community Server (GPL)"),
		"Cloud SQL":            answer("8.0.31-google", "(Google)"),
		"Azure":                answer("8.0.40-azure", "Source distribution"),
		"a group's primary": answer("8.4.2", "MySQL Community Server - GPL", "group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
			"group_replication_single_primary_mode", "ON", "group_replication_consistency", "BEFORE_ON_PRIMARY_FAILOVER"),
		"the plugin without a group": answer("8.4.2", "MySQL Community Server - GPL", "group_replication_group_name", "",
			"group_replication_single_primary_mode", "OFF", "group_replication_consistency", "EVENTUAL"),
	} {
		require.NoError(t, engine.CheckMySQL(vars), name)
	}
}

// hazard M1
func TestSeveralNodesThatWriteAreRefused(t *testing.T) {
	t.Parallel()
	const provider = "/usr/lib/galera/libgalera_smm.so"
	group := func(primary, consistency string) map[string]string {
		return answer("8.0.36", "MySQL Community Server - GPL", "group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
			"group_replication_single_primary_mode", primary, "group_replication_consistency", consistency)
	}
	old := group("ON", "")
	delete(old, "group_replication_consistency")
	for want, vars := range map[string]map[string]string{
		"Galera (MariaDB 10.11.19-MariaDB-0+deb12u1): a share lock is one node's":                      answer("10.11.19-MariaDB-0+deb12u1", "Debian 12", "wsrep_on", "ON", "wsrep_provider", provider),
		"Galera (MariaDB 10.11.20-MariaDB): a share lock":                                              answer("10.11.20-MariaDB", "", "wsrep_on", "OFF", "wsrep_provider", provider),
		"Galera (MySQL 8.0.36-28)":                                                                     answer("8.0.36-28", "Percona Server (GPL)", "wsrep_provider", provider),
		"Percona XtraDB Cluster (8.0.36-28.1":                                                          answer("8.0.36-28.1", "Percona XtraDB Cluster (GPL), Release rel28, Revision bfb687f", "wsrep_provider", provider),
		"Galera (5.7.44-31.65, MySQL Community Server (GPL), wsrep":                                    answer("5.7.44-31.65", "MySQL Community Server (GPL), wsrep_31.65"),
		"Group Replication (MySQL 8.0.36): group_replication_single_primary_mode is not ON":            group("OFF", "BEFORE_AND_AFTER"),
		"Group Replication (MySQL 8.0.36): group_replication_consistency is EVENTUAL: a new primary":   group("ON", "EVENTUAL"),
		"Group Replication (MySQL 8.0.36): group_replication_consistency is not there: a new primary":  old,
		"MySQL NDB Cluster (8.0.35-cluster, MySQL Cluster Community Server - GPL): what its SQL nodes": answer("8.0.35-cluster", "MySQL Cluster Community Server - GPL"),
		"Xpand (5.0.45-Xpand-6.0.3":                                                                    answer("5.0.45-Xpand-6.0.3", ""),
		"MySQL 8.0.37: read_only or innodb_read_only is set, as on a replica":                          answer("8.0.37", "Source distribution", "read_only", "ON"),
		"Aurora MySQL 8.0.mysql_aurora.3.04.0: read_only or innodb_read_only is set":                   answer("8.0.mysql_aurora.3.04.0", "Source distribution", "innodb_read_only", "ON"),
		"MariaDB 12.0.1-MariaDB: read_only or innodb_read_only is set, as on a replica":                answer("12.0.1-MariaDB", "", "read_only", "NO_LOCK_NO_ADMIN"),
	} {
		refused(t, engine.CheckMySQL(vars), want, want)
	}
}

// hazard M2
func TestAnEngineThatIsNotMySQLIsRefused(t *testing.T) {
	t.Parallel()
	const tidb, comment = "8.0.11-TiDB-v8.1.0", "TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible"
	for want, vars := range map[string]map[string]string{
		"TiDB (8.0.11-TiDB-v8.1.0): tidb_enable_noop_functions is ON, so that LOCK IN SHARE MODE is accepted and locks nothing": answer(tidb, comment, "tidb_enable_noop_functions", "ON"),
		"TiDB (8.0.11-TiDB-v8.1.0): tidb_enable_noop_functions is WARN, so that":                                                answer(tidb, comment, "tidb_enable_noop_functions", "WARN"),
		"TiDB (8.0.11-TiDB-v8.1.0): tidb_enable_noop_functions is OFF, so that LOCK IN SHARE MODE is an error":                  answer(tidb, comment, "tidb_enable_noop_functions", "OFF"),
		"TiDB (8.0.11-TiDB-v8.1.0): tidb_enable_shared_lock_promotion is ON":                                                    answer(tidb, comment, "tidb_enable_noop_functions", "OFF", "tidb_enable_shared_lock_promotion", "ON"),
		"TiDB (8.0.31): tidb_enable_noop_functions is OFF":                                                                      answer("8.0.31", comment), // its server-version is a setting
		"Vitess (8.0.30-Vitess":                answer("8.0.30-Vitess", "Version: 20.0.1 (Git revision e1da2b2 branch 'HEAD') built on Wed Jul 10"),
		"PlanetScale":                          answer("8.0.34-PlanetScale", "PlanetScale"),
		"Version: 20.0.1 (Git revision":        answer("8.0.31", "Version: 20.0.1 (Git revision e1da2b2 branch 'HEAD') built on Wed Jul 10"),
		"OceanBase (5.7.25-OceanBase-v4.2.1.0": answer("5.7.25-OceanBase-v4.2.1.0", "OceanBase_CE 4.2.1.0 (r100000102023092807)"),
		"SingleStore (5.7.32, SingleStoreDB":   answer("5.7.32", "SingleStoreDB source distribution (compatible; MySQL Enterprise & MySQL Commercial)"),
		"SingleStore (5.5.58, MemSQL":          answer("5.5.58", "MemSQL source distribution (compatible; MySQL Enterprise & MySQL Commercial)", "memsql_version", "7.3.2"),
		"SingleStore (5.7.32, Source":          answer("5.7.32", "Source distribution", "memsql_version", "8.5.1"),
		"Dolt (8.0.33, Dolt)":                  answer("8.0.33", "Dolt"),
		"StarRocks (5.1.0, StarRocks version":  answer("5.1.0", "StarRocks version 3.1.2"),
		"Apache Doris (5.7.99, doris version":  answer("5.7.99", "doris version doris-2.1.3-rc09"),
		"ClickHouse (24.3.1.2672-clickhouse":   answer("24.3.1.2672-clickhouse", ""),
		"PolarDB-X (5.7.25-TDDL":               answer("5.7.25-TDDL-5.4.12-16327949", "Tddl Server (ALIBABA)"),
		"10.1.9-MariaDBV1.0R012D003-20180427":  answer("10.1.9-MariaDBV1.0R012D003-20180427-1600", "Source distribution"),
		"8.0.30-txsql, Source distribution: version and version_comment do not answer": answer("8.0.30-txsql", "Source distribution"),
		"8.0.22.24.06": answer("8.0.22.24.06", "Source distribution"),
		"8.0.36, a fork: version and version_comment do not answer as MySQL's and MariaDB's do": answer("8.0.36", "a fork"),
		"MySQL 5.6.51: the oldest version that is supported is 5.7":                             answer("5.6.51", "MySQL Community Server (GPL)"),
		"MariaDB 10.1.48-MariaDB: the oldest version that is supported is 10.2":                 answer("10.1.48-MariaDB", "MariaDB Server"),
		"an engine without a version":                                                           {},
		"PostgreSQL 15.6":                                                                       answer("PostgreSQL 15.6 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit", ""),
	} {
		refused(t, engine.CheckMySQL(vars), want, want)
	}
}

func TestMariaDBAnswersTheQuery(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", testenv.MariaDB(t))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	vars, err := engine.AskMySQL(t.Context(), db)
	require.NoError(t, err)
	require.Contains(t, vars, "version")
	require.NoError(t, engine.CheckMySQL(vars), vars)
}

package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard G28
func TestPostgreSQLAndItsManagedFormsAreKnown(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{
		"from source":      "PostgreSQL 13.0 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 10.2.0, 64-bit",
		"three numbers":    "PostgreSQL 13.0.1 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 10.2.0, 64-bit",
		"32 bits":          "PostgreSQL 15.6 on arm-unknown-linux-gnueabihf, compiled by gcc (Alpine 13.2.1_git20231014) 13.2.1 20231014, 32-bit",
		"Debian":           "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit",
		"PGDG, the image":  "PostgreSQL 17.5 (Debian 17.5-1.pgdg120+1) on aarch64-unknown-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit",
		"Ubuntu":           "PostgreSQL 16.13 (Ubuntu 16.13-0ubuntu0.24.04.1) on x86_64-pc-linux-gnu, compiled by gcc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0, 64-bit",
		"Raspbian":         "PostgreSQL 15.9 (Raspbian 15.9-0+deb12u1) on arm-unknown-linux-gnueabihf, compiled by gcc (Raspbian 12.2.0-14+rpi1) 12.2.0, 32-bit",
		"Homebrew":         "PostgreSQL 14.18 (Homebrew) on aarch64-apple-darwin24.4.0, compiled by Apple clang version 17.0.0 (clang-1700.0.13.3), 64-bit",
		"Postgres.app":     "PostgreSQL 16.3 (Postgres.app) on aarch64-apple-darwin21.6.0, compiled by Apple clang version 14.0.0 (clang-1400.0.29.102), 64-bit",
		"Percona":          "PostgreSQL 16.3 - Percona Distribution on x86_64-pc-linux-gnu, compiled by gcc (GCC) 11.4.1, 64-bit",
		"Percona's own":    "PostgreSQL 17.5 - Percona Server for PostgreSQL 17.5.2 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 11.4.1, 64-bit",
		"Windows":          "PostgreSQL 13.4, compiled by Visual C++ build 1914, 64-bit",
		"Windows, from 17": "PostgreSQL 18.3 on x86_64-windows, compiled by msvc-19.44.35225, 64-bit",
		"RDS":              "PostgreSQL 14.7 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 7.3.1 20180712 (Red Hat 7.3.1-12), 64-bit",
		"RDS, extended":    "PostgreSQL 13.23-rds.20260313 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 7.3.1 20180712 (Red Hat 7.3.1-12), 64-bit",
		"Aurora":           "PostgreSQL 15.4 on x86_64-pc-linux-gnu, compiled by x86_64-pc-linux-gnu-gcc (GCC) 9.5.0, 64-bit",
		"Cloud SQL":        "PostgreSQL 15.2 on x86_64-pc-linux-gnu, compiled by Debian clang version 12.0.1, 64-bit",
		"AlloyDB":          "PostgreSQL 16.3 on x86_64-pc-linux-gnu, compiled by Debian clang version 12.0.1, 64-bit",
		"Azure":            "PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0, 64-bit",
		"Neon":             "PostgreSQL 17.5 (84bec44) on aarch64-unknown-linux-gnu, compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit",
		"Supabase":         "PostgreSQL 15.8 on aarch64-unknown-linux-gnu, compiled by gcc (GCC) 13.2.0, 64-bit",
		"a beta":           "PostgreSQL 17beta1 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 13.2.0, 64-bit",
		"Debian's beta":    "PostgreSQL 18beta1 (Debian 18~beta1-1.pgdg120+1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit",
		"a candidate":      "PostgreSQL 18rc1 on aarch64-apple-darwin23.6.0, compiled by Apple clang version 15.0.0, 64-bit",
		"in development":   "PostgreSQL 19devel on x86_64-linux, compiled by gcc-13.3.0, 64-bit",
	} {
		require.NoError(t, engine.CheckPostgres(version, ""), name)
	}
}

// hazard G28
func TestAnEngineThatIsNotPostgreSQLIsRefused(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"CockroachDB CCL v23.1.0 (x86_64-pc-linux-gnu, built 2023/05/10 14:38:50, go1.19.4)":                                                                                    "CockroachDB (CockroachDB CCL v23.1.0",
		"CockroachDB OSS v26.2.5 (aarch64-unknown-linux-gnu, built 2026/06/10 14:38:50, go1.26.1)":                                                                              "CockroachDB (",
		"PostgreSQL 11.2-YB-2024.2.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6 (https://github.com/yugabyte/llvm-proj), 64-bit":                             "YugabyteDB (PostgreSQL 11.2-YB-2024.2.0.0-b0",
		"PostgreSQL 15.2-YB-2025.2.2.2-b0 on x86_64-pc-linux-gnu, compiled by clang version 19.1.2, 64-bit":                                                                     "YugabyteDB (PostgreSQL 15.2-YB-2025.2.2.2-b0",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), Redshift 1.0.77467":                                             "Amazon Redshift",
		"PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f) on x86_64-pc-linux-gnu, compiled by gcc (GCC) 8.5.0, 64-bit compiled on Jan 19 2024 06:48:25":         "Greenplum",
		"PostgreSQL 14.4 (Apache Cloudberry 2.0.0 build 1) on x86_64-pc-linux-gnu, compiled by gcc (GCC) 11.4.1, 64-bit compiled on Aug 1 2025":                                 "Cloudberry",
		"PostgreSQL 9.5.0 on x86_64-unknown-linux-gnu (Materialize v0.109.1)":                                                                                                   "Materialize",
		"PostgreSQL 13.14.0-RisingWave-2.0.0 (0d15632a8d)":                                                                                                                      "RisingWave",
		"CrateDB 5.5.2 (built a16b4d4/NA, Linux 5.15.0 amd64, OpenJDK 64-Bit Server VM 21.0.1+12-LTS)":                                                                          "CrateDB",
		"PostgreSQL 9.2.4 (openGauss 1.1.0 build 392c0438) compiled at 2020-12-31 20:07:42 commit 0 last mr   on x86_64-unknown-linux-gnu, compiled by g++ (GCC) 7.3.0, 64-bit": "openGauss",
		"(openGauss 5.0.0 build a07d57c3) compiled at 2023-03-29 03:09:38 commit 0 last mr  release":                                                                            "openGauss",
		"PostgreSQL 9.2.4 (MogDB 2.0.1 build f892ccb7) compiled at 2021-07-09 16:12:59 commit 0 last mr on x86_64-unknown-linux-gnu, compiled by g++ (GCC) 7.3.0, 64-bit":       "MogDB",
		"gaussdb (GaussDB Kernel 505.2.0 build 6f5d8b9d) compiled at 2024-09-10 16:09:14":                                                                                       "GaussDB",
		"PostgreSQL 17.4 (EnterpriseDB Advanced Server 17.4.0) on x86_64-pc-linux-gnu, compiled by gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5), 64-bit":                        "EDB Postgres Advanced Server",
		"PostgreSQL 14.10 (PolarDB 14.10.23.0 build 3c3dd3a1) on x86_64-linux-gnu, compiled by gcc (GCC) 9.2.1, 64-bit":                                                         "PostgreSQL 14.10 (PolarDB",
		"PostgreSQL 17.4 (Tantor Special Edition 17.4.0) on x86_64-pc-linux-gnu, compiled by gcc (GCC) 11.4.1, 64-bit":                                                          "does not answer as PostgreSQL does",
		"PostgreSQL 14.1":                       "does not answer as PostgreSQL does", // Spanner's PGAdapter
		"PostgreSQL 16":                         "does not answer as PostgreSQL does", // Aurora DSQL
		"PostgreSQL 16.3 compatible CedarDB v2": "does not answer as PostgreSQL does",
		"PostgreSQL 16.3, compiled by Visual C++ build 1914, 64-bit, QuestDB":   "does not answer as PostgreSQL does",
		"PostgreSQL 13.0 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit\nmore": "does not answer as PostgreSQL does",
		"":                 "an engine without a version",
		"10.11.19-MariaDB": "10.11.19-MariaDB",
		"PostgreSQL 12.22 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 8.3.1, 64-bit":    "PostgreSQL 12.22: the oldest version that is supported is 13",
		"PostgreSQL 9.6.24 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 8.3.1, 64-bit":   "PostgreSQL 9.6.24: the oldest",
		"PostgreSQL 99999999999999999999 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit": "the oldest",
		strings.Repeat("é", 5000): "ééé",
	} {
		err := engine.CheckPostgres(version, "")
		refused(t, err, version, want)
		require.Less(t, len(err.Error()), 700, version)
	}
}

// hazard G28
func TestAClusterOfWritersIsRefused(t *testing.T) {
	t.Parallel()
	const version = "PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 9.4.0, 64-bit"
	for extensions, want := range map[string]string{
		"citus":       "PostgreSQL 16.4 with the extension citus: its advisory locks are one node's",
		"bdr":         "with the extension bdr: it replicates between nodes that all write",
		"pgactive":    "with the extension pgactive",
		"spock":       "with the extension spock",
		"multimaster": "with the extension multimaster",
		"spock,citus": "with the extension spock",
	} {
		refused(t, engine.CheckPostgres(version, extensions), extensions, want)
	}
}

func refused(t *testing.T, err error, what, want string) {
	t.Helper()
	require.ErrorIs(t, err, guard.ErrUnfenced, what)
	require.ErrorContains(t, err, want, what)
	require.ErrorContains(t, err, engine.Page, what)
	var refusal *engine.Error
	require.True(t, errors.As(err, &refusal), what)
	require.NotEmpty(t, refusal.Engine, what)
	require.NotEmpty(t, refusal.Reason, what)
}

func TestAServerAnswersTheQuery(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		config, err := pgx.ParseConfig(testenv.PostgresURL(t))
		require.NoError(t, err)
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		defer conn.Close(t.Context())
		var version, extensions string
		require.NoError(t, conn.QueryRow(t.Context(), engine.PostgresQuery).Scan(&version, &extensions))
		require.NoError(t, engine.CheckPostgres(version, extensions), version)
		require.Empty(t, extensions)
	}
}

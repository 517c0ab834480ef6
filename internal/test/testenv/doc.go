// Package testenv gives tests real servers: PostgreSQL, Redis, MariaDB, PgBouncer,
// nginx.
//
// # Which server
//
// Each server is looked for in this order. The first one found is used, and printed once
// to standard error:
//
//  1. the URL in the environment (see the constants below);
//  2. a binary of this machine, from PATH and the folders of packages, the newest
//     version first. It is started once per test process, in a temporary folder on a
//     free port of 127.0.0.1, by package serverproc. Server and folder are removed when
//     the test process ends, even if it was killed;
//  3. neither: the test fails, and its message describes what to do. No test is skipped.
//
// # What a test gets
//
//	Postgres        a migrated schema      shared server, parallel tests
//	Redis           a key prefix           shared server, parallel tests
//	MariaDB         an empty database      shared server, parallel tests
//	SparePostgres   a server               for one test: a crash loses what was not flushed
//	OwnRedis        a server               for one test: killed, cut off, promoted
//	OwnPostgres     a server, standbys     the same
//	RedisCluster    masters and replicas   the same
//	Sentinel        a Sentinel             the same, beside a Redis
//	Galera          nodes of MariaDB       the same
//	OwnMariaDB      a server               for one test
//	PgBouncer       a pooler               for one test: four sessions of the shared PostgreSQL
//	Nginx           a folder of files      for one test
//
// # What it does not do
//
// The shared PostgreSQL and MariaDB of step 2 do not wait for the disk: tests on them
// must not crash them or depend on durability. Servers for one test keep fsync on, and are
// always this machine's. Local servers are not started on Windows.
//
// # The files, in reading order
//
//	source.go           which shared server a test gets: a URL or a local binary; the error if
//	                    there is neither; StartPostgres and others for programs
//	postgres.go         the shared PostgreSQL: a pool and a migrated schema, which is dropped at
//	                    the end; the script of all migrations; the server's settings
//	redis.go            the shared Redis: a client and a key prefix, whose keys are removed; its
//	                    read timeout
//	mariadb.go          the shared MariaDB or MySQL: an empty database; a MariaDB for one test;
//	                    where the binaries of MariaDB are found
//	pgbouncer.go        PgBouncer in transaction mode with four sessions, for one test; its
//	                    sessions are closed; its settings
//	nginx.go            nginx for one test: a folder whose files are read, PUT and deleted
//	spare.go            a PostgreSQL that its test crashes: a commit that does not wait is lost
//	                    every time
//	own.go              a server for one test; how nodes become a Redis Cluster; RedisAt, for a
//	                    proxy
//	own_postgres.go     a PostgreSQL for one test: kill, restart; standbys: cut off, promoted;
//	                    pgpool; and for RedisServer: ReplicaOf, CutOff, Promote
//	own_redis.go        a Redis for one test: settings, kill, restart, pause; a Redis Cluster
//	                    and its failover
//	own_etcd.go         an etcd for one test, of one member or three: kill, restart, pause; its
//	                    leader; a copy of its data is restored
//	etcd_peers.go       relays between the members of an etcd, which cut one off
//	galera.go           a Galera cluster for one test; when its nodes are ready; "there is no
//	                    libgalera_smm.so"
//	flaky.go            HTTP services that apply the first write and break the connection or the
//	                    stream without an answer
//	limits.go           how many tests run at once; a context for clean-up; unique names; the
//	                    number of rounds; an empty database of PostgreSQL
//	program.go          where PostgreSQL and Redis are found
//	versions.sql        the version table, as Set.Up of package migrations makes it
//	catalog_test.sql    the catalog entries by which a test compares the script's schema with
//	                    that of Set.Up
package testenv

// These environment variables name servers that are used instead of local ones. The URL
// of the PostgreSQL server must belong to a superuser: some tests make roles, dump, and
// replicate.
const (
	EnvPostgres = "FENCEPOST_TEST_POSTGRES_URL"
	EnvRedis    = "FENCEPOST_TEST_REDIS_URL"
)

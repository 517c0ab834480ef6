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
//     free port of 127.0.0.1. Server and folder are removed when the test process ends,
//     even if it was killed;
//  3. neither: the test fails, and its message describes what to do. No test is skipped.
//
// # What a test gets
//
//	Postgres        a migrated schema      shared server, parallel tests
//	Redis           a key prefix           shared server, parallel tests
//	MariaDB         an empty database      shared server, parallel tests
//	SparePostgres   a whole server         one test at a time; it may be crashed
//	SpareRedis      a whole server         one test at a time; it is emptied
//	OwnRedis        a server               for one test: killed, cut off, promoted
//	OwnPostgres     a server, standbys     the same
//	RedisCluster    masters and replicas   the same
//	Galera          nodes of MariaDB       the same
//	OwnMariaDB      a server               for one test
//	OwnPgBouncer    a pooler               for one test, in front of the shared PostgreSQL or a proxy of it
//	PgBouncer       four sessions          of the shared PostgreSQL, in transaction mode
//	Nginx           a folder of files      shared server, parallel tests
//
// All test processes of this machine take turns on a spare server that is given by URL,
// through a file lock. A test that needs both spares takes SparePostgres first, and takes
// each once. Otherwise two tests may deadlock, or one with itself, until the test
// binary's timeout.
//
// # What it does not do
//
// The shared PostgreSQL and MariaDB of step 2 do not wait for the disk: tests on them
// must not crash them or depend on durability. The spare PostgreSQL keeps fsync on. Local
// servers are not started on Windows: set the URLs there.
package testenv

// These environment variables name servers that are used instead of local ones. The URLs
// of the PostgreSQL servers must belong to superusers: some tests make roles, dump, and
// replicate. The spare servers are crashed and emptied: no other program may use them.
const (
	EnvPostgres      = "FENCEPOST_TEST_POSTGRES_URL"
	EnvRedis         = "FENCEPOST_TEST_REDIS_URL"
	EnvSparePostgres = "FENCEPOST_TEST_SPARE_POSTGRES_URL"
	EnvSpareRedis    = "FENCEPOST_TEST_SPARE_REDIS_URL"
)

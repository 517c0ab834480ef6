// Package testenv gives tests real servers: PostgreSQL, Redis, MariaDB, PgBouncer,
// nginx.
//
// # Which server
//
// Each server is looked for in this order, and the first that is there is taken
// and named once on standard error:
//
//  1. the URL in the environment (see the constants below);
//  2. a binary of this machine, from PATH and the folders where packages put
//     it, the newest version first. It is started once per test process, in a
//     temporary folder on a free port of 127.0.0.1, and both are gone when the
//     test process is gone, even when that was killed;
//  3. neither: the test fails and says what to do. No test is skipped.
//
// # What a test has for itself
//
//	Postgres        a migrated schema      shared server, parallel tests welcome
//	Redis           a key prefix           shared server, parallel tests welcome
//	MariaDB         an empty database      shared server, parallel tests welcome
//	SparePostgres   a whole server         one test at a time; it may be crashed
//	SpareRedis      a whole server         one test at a time; it is emptied
//	OwnRedis        a server               one test's: killed, cut off, promoted
//	OwnPostgres     a server, standbys     the same
//	RedisCluster    masters and replicas   the same
//	PgBouncer       four sessions          of the shared PostgreSQL, in transaction mode
//	Nginx           a folder of files      shared server, parallel tests welcome
//
// A spare server found by URL is taken in turn by all test processes of this
// machine, through a file lock. A test that wants both spares takes
// SparePostgres first, and takes each once: two tests that wait for each other,
// or one that waits for itself, wait until the test binary's own timeout.
//
// # What it does not do
//
// The shared PostgreSQL and MariaDB of step 2 do not wait for the disk: what
// survives the end of the machine is not their subject, and nothing may crash
// them. The spare PostgreSQL keeps fsync on. Local servers are not started on
// Windows: set the URLs there.
package testenv

// The environment variables that name servers instead of local ones. The URLs of
// the PostgreSQL servers belong to superusers: some tests make roles, dump, and
// replicate. The spare servers are crashed and emptied: they must be nobody's.
const (
	EnvPostgres      = "FENCEPOST_TEST_POSTGRES_URL"
	EnvRedis         = "FENCEPOST_TEST_REDIS_URL"
	EnvSparePostgres = "FENCEPOST_TEST_SPARE_POSTGRES_URL"
	EnvSpareRedis    = "FENCEPOST_TEST_SPARE_REDIS_URL"
)

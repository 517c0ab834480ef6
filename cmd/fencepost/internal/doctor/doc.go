// Package doctor is the command fencepost doctor. It reads every setting of a Redis,
// PostgreSQL, MySQL or MariaDB server that lets numbers fall or locks vanish, and reports
// the values, as the server returns them, with the fix.
//
// It changes nothing. If a managed service hides a setting, or the role lacks a right, the
// verdict is [Unknown], never [Pass]. If a server does not answer, Examine returns an
// error.
//
// A new check is a row of redisChecks in redis.go, postgresChecks in postgres.go, or
// mysqlChecks in mysql.go.
//
//	command.go             the flags; exit status 0, 1 or 2, and --allow-unknown; the time limit
//	                       of a server; the printed table, and the fixes below it
//	check.go               what a check is; pass, warn, fail, unknown; which errors become
//	                       unknown, and which end the examination; the fields of the JSON
//	redis.go               the list of checks of Redis, with why each matters; a refused login;
//	                       how INFO and CONFIG GET are read: "INFO has no …"
//	redis_replicas.go      role: a replica or a Sentinel; the version; min-replicas-to-write; a
//	                       cluster; the reading of the clock
//	redis_persistence.go   appendonly, appendfsync and save; settings that CONFIG SET has
//	                       changed and CONFIG REWRITE has not written; failed writes to the disk
//	redis_memory.go        maxmemory-policy and evicted keys; a memory that is nearly full;
//	                       counters with a ttl; a user that may not run scripts
//	postgres.go            the list of checks of PostgreSQL, with why each matters; the checks
//	                       of a setting or one query: fsync, synchronous_commit, standbys, …
//	postgres_engine.go     engines that are not known to fence; advisory locks and READ
//	                       COMMITTED, tried on two connections
//	postgres_schema.go     missing tables, functions and USAGE; sequences with CACHE or CYCLE;
//	                       UNLOGGED tables; which of three checks gets a finding of Set.Check
//	postgres_pooler.go     whether a pooler is in front, in transaction mode, and keeps prepared
//	                       statements
//	mysql.go               the list of checks of MySQL and MariaDB, and all of them: tables and
//	                       rights, share locks tried on two connections, flushes, timeouts
//	clock.go               for all servers: how far a clock is from this machine's; a warning
//	                       above 1 s, a failure above 1 min; a network that is too slow
//	postgres_standbys.sql  which standbys follow, and for which of them commits wait
//	postgres_logical.sql   publications and subscriptions with tables of the schema
//	postgres_vacuum.sql    autovacuum, and the tables that it skips
//	postgres_idle.sql      idle_session_timeout
//	postgres_room.sql      how many connections there may be, and how many there are
package doctor

// Package adopt shows how a program that already has a lock gets its writes fenced, with
// one function for each common lock. docs/adopt.md quotes the functions, and the tests
// run them on real servers.
//
//	nolock.go       no lock yet: Fencepost's own, in PostgreSQL
//	redsync.go      a mutex of redsync; the writes go to PostgreSQL by pgx
//	redislock.go    a lock of bsm/redislock
//	advisory.go     pg_advisory_lock on a session, which draws the number too
//	consul.go       a lock of Consul's client
//	etcd.go         a mutex of etcd, whose revision is the number
//	getlock.go      GET_LOCK of MySQL
//	skiplocked.go   a job queue with FOR UPDATE SKIP LOCKED: a job is claimed and numbered in
//	                one transaction; its completion is refused if another worker has it
//	interface.go    a lock behind the program's own interface
//	leading.go      leader election of client-go (Kubernetes): a number for each term
//	pipeline.go     a lock of bsm/redislock, for data in Redis that a pipeline writes
//	numbered.go     a mutex of redsync for work over database/sql: the context carries the
//	                number to the libraries below
//	databasesql.go  plain statements of database/sql
//	sqlx.go         a transaction of sqlx, with Join at its beginning
//	bun.go          a transaction of bun, with Join at its beginning
//	squirrel.go     a statement that squirrel has built
//	gorm.go         GORM, with gormguard
//	ent.go          ent, with a client inside the guard's transaction
package adopt

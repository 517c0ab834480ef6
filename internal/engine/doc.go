// Package engine decides whether a database is known to fence.
//
// The guards rely on locks that exclude all other writers, and on reads that see what was
// committed while they waited. Not all engines that speak PostgreSQL's or MySQL's
// protocol provide both, and some clusters provide them on one node only. This package
// has the allowlist: the query for a server's engine, and the rule for the reply. Guards,
// migrations and doctor run the query and apply no rules of their own.
//
// docs/engines.md lists the engines and modes, with the source of each rule.
//
//	postgres.go      the query, and which versions, look-alikes (CockroachDB, YugabyteDB, …) and
//	                 extensions (citus, bdr, …) of PostgreSQL are refused, and why
//	mysql.go         the variables that are read; which versions of MySQL, MariaDB and Aurora
//	                 are accepted; why Galera, Group Replication, TiDB, … are refused
//	error.go         ErrUnfenced: "the database is not known to fence"; the text of a refusal,
//	                 and the page about it
//	dialect.go       the dialects; which database has replied to a statement of another dialect;
//	                 the number of an error of MySQL
//	mysql_grants.go  which errors of MySQL deny a right; the GRANT statements that a message
//	                 quotes
package engine

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
package doctor

// Package doctor asks a Redis or PostgreSQL server for every setting that lets
// numbers fall or locks vanish, and says what it found, in the server's own
// words, with the cure.
//
// It only reads. What the server does not tell, because a managed service hides
// it or the role lacks a right, is [Unknown], never [Pass]. A server that cannot
// be asked at all is an error.
package doctor

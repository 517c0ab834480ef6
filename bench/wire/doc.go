// Package wire counts what clients send: it wraps the connections that they dial,
// so that nothing stands between them and the server.
package wire

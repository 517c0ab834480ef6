// Package outage distinguishes errors that a retry can cure from all others. A retry can
// cure errors of a server that is unreachable, starting or stopping, or takes no writes
// for now.
package outage

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// sqlStates are the errors of a PostgreSQL server that ends its sessions or accepts no
// new ones: shutdown, crash, start, too many connections. Class 08 counts too.
var sqlStates = []string{"57P01", "57P02", "57P03", "53300"}

// redisKinds are the first words of errors of a Redis server that is loading its data, is
// not the master, lacks replicas, disk or memory for a write, or runs a slow script.
var redisKinds = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "OOM", "BUSY"}

// redisPool is in the errors of go-redis for a call that got no connection in time: all of them
// are used, and during an outage each of them waits for a reply. Its older versions do not export
// the errors.
const redisPool = "redis: connection pool "

// Is reports whether err means that the server was unreachable or not ready. If err
// contains a reply of the server, the reply decides: a wrong password is no outage. A
// deadline that has passed counts as an outage, so callers must not pass an error that
// their own context has caused.
func Is(err error) bool {
	var postgres interface {
		error
		SQLState() string
	}
	var redis interface {
		error
		RedisError()
	}
	var network net.Error
	var certificate *tls.CertificateVerificationError
	var alert *net.OpError // of TLS, as about the client's certificate
	var request *url.Error
	switch {
	case errors.As(err, &postgres):
		code := postgres.SQLState()
		return strings.HasPrefix(code, "08") || slices.Contains(sqlStates, code)
	case errors.As(err, &redis):
		text := redis.Error()
		if strings.HasPrefix(text, "ERR Error running script") { // before Redis 7, with the error behind ": -"
			_, text, _ = strings.Cut(text, ": -")
		}
		kind, _, _ := strings.Cut(text, " ")
		return slices.Contains(redisKinds, kind) || strings.HasPrefix(text, "ERR max number of clients")
	case errors.As(err, &certificate), errors.As(err, &alert) && alert.Op == "remote error", errors.As(err, &request) && request.Op == "parse":
		return false
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		err != nil && strings.Contains(err.Error(), redisPool)
}

// IsStatus reports whether the status of an HTTP reply means that the server was not ready.
func IsStatus(status int) bool {
	const canceled = 499 // 408 in etcd 3.4: the server is stopping
	return status >= 500 && status != http.StatusNotImplemented ||
		slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests, canceled}, status)
}

package outage_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/outage"
)

type reply string

func (r reply) Error() string { return string(r) }
func (r reply) RedisError()   {}

func TestIs(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, err := range []error{
		refused, fmt.Errorf("acquire: %w", refused), io.EOF, fmt.Errorf("read: %w", io.ErrUnexpectedEOF), net.ErrClosed,
		&net.DNSError{Err: "no such host", IsNotFound: true}, &url.Error{Op: "Get", Err: refused},
		&pgconn.PgError{Code: "57P01"}, &pgconn.PgError{Code: "57P03"}, &pgconn.PgError{Code: "08006"}, &pgconn.PgError{Code: "53300"},
		errors.New("redis: connection pool timeout"), fmt.Errorf("acquire: %w", errors.New("redis: connection pool exhausted")),
		reply("LOADING Redis is loading the dataset in memory"), reply("READONLY You can't write against a read only replica."),
		reply("ERR max number of clients reached"), reply("BUSY Redis is busy running a script."),
		reply("ERR Error running script (call to f_1028): @user_script:4: @user_script: 4: -READONLY You can't write against a read only replica."),
	} {
		if errors.Is(err, net.ErrClosed) {
			err = &net.OpError{Op: "read", Err: err}
		}
		require.True(t, outage.Is(err), "%v", err)
	}
	for _, err := range []error{
		nil, errors.New("closed pool"), redis.Nil, redis.ErrClosed, reply("NOAUTH Authentication required."), reply("ERR unknown command"),
		reply("ERR Error running script (call to f_1028): @user_script:4: WRONGTYPE"), reply("BUSYGROUP Consumer Group name already exists"),
		&pgconn.PgError{Code: "28P01"}, &pgconn.PgError{Code: "3F000"}, &pgconn.PgError{Code: "42883"},
		errors.Join(&pgconn.PgError{Code: "28P01"}, refused),
		&url.Error{Op: "Get", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
		&url.Error{Op: "Get", Err: &net.OpError{Op: "remote error", Err: tls.AlertError(42)}}, &url.Error{Op: "parse", Err: errors.New("invalid character")},
	} {
		require.False(t, outage.Is(err), "%v", err)
	}
}

func TestIsStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		200: false, 400: false, 401: false, 403: false, 404: false, 408: true, 409: false, 429: true, 499: true, 500: true, 501: false, 503: true, 504: true,
	} {
		require.Equal(t, want, outage.IsStatus(status), "%d", status)
	}
}

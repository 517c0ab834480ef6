// Command writer is the writer that the tests of package containers freeze and
// disconnect. It listens on wire.Port for one test.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lab/containers/wire"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func main() {
	if err := serve(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv(wire.EnvPostgres))
	if err != nil {
		return err
	}
	defer pool.Close()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(wire.EnvRedis), MaxRetries: -1})
	defer client.Close()
	port, _, _ := strings.Cut(wire.Port, "/")
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	defer listener.Close()
	log.Print(wire.Ready)
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	w := &writer{pool: pool, issuer: &redistoken.Issuer{Client: client}}
	return w.obey(ctx, json.NewDecoder(conn), json.NewEncoder(conn))
}

// obey executes orders until the connection ends.
func (w *writer) obey(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	for {
		var o wire.Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		balance, err := w.do(ctx, o)
		if err := answers.Encode(wire.Answer{Balance: balance, Outcome: outcome(err)}); err != nil {
			return err
		}
	}
}

// outcome returns the word for err, or its text.
func outcome(err error) string {
	for known, word := range map[error]string{
		guard.ErrStale: wire.Stale, guard.ErrUnknown: wire.Unknown, guard.ErrEvicted: wire.Evicted,
	} {
		if errors.Is(err, known) {
			return word
		}
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, token.ErrLost):
		return wire.Gone
	}
	return err.Error()
}

package pgtoken_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuer(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		pool, schema := testenv.Postgres(t)
		return closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	})
}

func TestIssuerBySimpleProtocol(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		_, schema := testenv.Postgres(t)
		pool := connect(t, func(config *pgxpool.Config) {
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		})
		return closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	})
}

func TestIssuerThatClaims(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		pool, schema := testenv.Postgres(t)
		return closed(t, &pgtoken.Issuer{DB: pool, Schema: schema, Claims: true})
	})
}

func TestIssuerThatPolls(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		pool, schema := testenv.Postgres(t)
		return &pgtoken.Issuer{DB: pool, Schema: schema, Poll: 10 * time.Millisecond}
	})
}

package failures_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

var onPostgres = map[string]func(pool *pgxpool.Pool) token.Issuer{
	"rows":           func(pool *pgxpool.Pool) token.Issuer { return &pgtoken.Issuer{DB: pool} },
	"advisory locks": func(pool *pgxpool.Pool) token.Issuer { return &pgtoken.Advisory{Pool: pool} },
}

// settings save time: a server that is killed loses nothing that it has written
// and not flushed, since the machine lives on.
var settings = []string{"fsync=off"}

func TestPostgresIsKilledAndStartedAgain(t *testing.T) {
	for name, issuer := range onPostgres {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, keeps, func(t *testing.T) system {
				server := testenv.OwnPostgres(t, settings...)
				testenv.Migrate(t, server.URL())
				var at place
				at.move(server.Addr())
				return system{
					issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, issuer(at.postgres(t, server.URL()))) },
					fail:   server.Restart,
				}
			})
		})
	}
}

// hazard P6
func TestAnAsynchronousStandbyIsPromoted(t *testing.T) {
	for name, issuer := range onPostgres {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, forgets, func(t *testing.T) system { return promotedStandby(t, issuer) })
		})
	}
}

func promotedStandby(t *testing.T, issuer func(*pgxpool.Pool) token.Issuer) system {
	t.Helper()
	primary := testenv.OwnPostgres(t, settings...)
	testenv.Migrate(t, primary.URL())
	standby := primary.Standby(settings...)
	var at place
	at.move(primary.Addr())
	return system{
		issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, issuer(at.postgres(t, primary.URL()))) },
		depart: standby.CutOff,
		fail: func() { // for a moment there are two primaries
			standby.Promote()
			at.move(standby.Addr())
			primary.Kill()
		},
	}
}

package sqlguard_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// hazard P8
func TestEveryDoorBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e, url := newEnv(t), testenv.PgBouncer(t)
			pool := client(t, url, mode, clients)
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
			for name, door := range doors(e, g) {
				t.Run(name, func(t *testing.T) { through(t, e, door) })
			}
			t.Run("Mint", func(t *testing.T) {
				e.exec("DELETE FROM marks")
				tok, err := g.Mint(e.bounded(), pool, resource, "minted")
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("%d minted", tok.Number), e.mark(resource))
			})
		})
	}
}

// Twelve clients with mixed tokens share four sessions: see torture_test.go for
// what is judged.
//
// hazard P8
func TestTortureBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			tt := newTorture(t)
			tt.pool = client(t, testenv.PgBouncer(t), mode, clients)
			tt.run(3)
			t.Logf("seed %d: %d writes: %v", tt.seed, tt.ops.Load(), tt.counts)
			require.Empty(t, tt.violations, "FENCEPOST_TEST_SEED=%d", tt.seed)
			for _, kind := range []string{"admitted", "refused", "rolled back"} {
				require.Positive(t, tt.counts[kind], kind)
			}
		})
		t.Run("without the lock it catches what it must in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			tt := newTorture(t)
			tt.pool = client(t, testenv.PgBouncer(t), mode, clients)
			for function, oldnew := range map[string][]string{
				"admit":      {"pg_advisory_xact_lock_shared(", "abs("},
				"admit_slow": {"pg_advisory_xact_lock_shared(", "abs("},
				"lock_alone": {"pg_advisory_xact_lock(", "abs("},
			} {
				tt.mutate(function, oldnew...)
			}
			tt.run(tortured)
			require.NotEmpty(t, tt.violations, "FENCEPOST_TEST_SEED=%d", tt.seed)
		})
	}
}

package httpguard_test

import (
	"database/sql"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

func TestWhichMiddlewaresShareInFlight(t *testing.T) {
	t.Parallel()
	var marks guard.Memory
	shared := new(httpguard.InFlight)
	for name, c := range map[string]struct {
		one, other httpguard.Middleware
		shared     bool
	}{
		"one Store":                {httpguard.Middleware{Store: &marks}, httpguard.Middleware{Store: &marks}, true},
		"two Stores":               {httpguard.Middleware{Store: new(guard.Memory)}, httpguard.Middleware{Store: new(guard.Memory)}, false},
		"no Store":                 {httpguard.Middleware{}, httpguard.Middleware{}, false},
		"one InFlight, two Stores": {httpguard.Middleware{InFlight: shared, Store: new(guard.Memory)}, httpguard.Middleware{InFlight: shared}, true},
		"one that leaves it out":   {httpguard.Middleware{InFlight: shared}, httpguard.Middleware{InFlight: shared, DangerouslySkipInFlight: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			writes, status := overtaken(t, c.one, c.other)
			if c.shared {
				require.Equal(t, []string{"older"}, writes)
				require.Equal(t, http.StatusServiceUnavailable, status)
			} else {
				require.Equal(t, []string{"newer", "older"}, writes)
				require.Equal(t, http.StatusOK, status)
			}
		})
	}
}

// hazard W13
// Two Store values for one set of marks: their middlewares share one InFlight. Each case
// forces the order that breaks fencing without that:
//
//  1. one handler runs under 34, admitted by the first Store value;
//  2. 35 arrives at the other handler, which has the second Store value;
//  3. the handler of 34 writes.
func TestStoresThatKeepTheSameMarksShareInFlight(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	config, err := pgxpool.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	second, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer second.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	client, _ := testenv.Redis(t)
	again := redis.NewClient(client.Options())
	defer again.Close()
	memory := at(t)
	name := func(string) string { return schema + ":mark" }
	for name, stores := range map[string]struct{ one, other guard.Store }{
		"two Guards of one pool":     {&sqlguard.Guard{DB: pool, Schema: schema}, &sqlguard.Guard{DB: pool, Schema: schema}},
		"two pools of one database":  {&sqlguard.Guard{DB: pool, Schema: schema}, &sqlguard.Guard{DB: second, Schema: schema}},
		"a Guard and its Table":      {&sqlguard.Guard{DB: pool, Schema: schema}, &rowguard.Table{Guard: &sqlguard.Guard{DB: second, Schema: schema}}},
		"two Guards of one sql.DB":   {stdGuard(db, schema), stdGuard(db, schema)},
		"two Guards of one client":   {&redisguard.Guard{Client: client, MarkKey: name}, &redisguard.Guard{Client: client, MarkKey: name}},
		"two clients of one server":  {&redisguard.Guard{Client: client, MarkKey: name}, &redisguard.Guard{Client: again, MarkKey: name}},
		"values that do not compare": {storeFunc(memory.Admit), storeFunc(memory.Admit)},
	} {
		t.Run(name, func(t *testing.T) {
			writes, status := overtaken(t, httpguard.Middleware{Store: stores.one}, httpguard.Middleware{Store: stores.other})
			require.Equal(t, []string{"older"}, writes)
			require.Equal(t, http.StatusServiceUnavailable, status, "the newer one waits, and must retry")
		})
	}
	t.Run("the twin: values of which nothing is known", func(t *testing.T) {
		writes, status := overtaken(t, httpguard.Middleware{Store: &unknownStore{memory}}, httpguard.Middleware{Store: &unknownStore{memory}})
		require.Equal(t, []string{"newer", "older"}, writes, "an older token wrote after a newer one")
		require.Equal(t, http.StatusOK, status)
	})
}

// Stores with different marks have separate queues: numbers of two databases are not
// comparable.
func TestStoresThatKeepOtherMarksShareNoInFlight(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	client, _ := testenv.Redis(t)
	options := *client.Options()
	options.DB = 15
	elsewhere := redis.NewClient(&options)
	defer elsewhere.Close()
	one, other := &redisguard.Guard{Client: client}, &redisguard.Guard{Client: client}
	other.MarkKey = func(resource string) string { return "other:" + resource }
	for name, stores := range map[string]struct{ one, other identified }{
		"two schemas":         {&sqlguard.Guard{DB: pool, Schema: schema}, &sqlguard.Guard{DB: pool}},
		"two memories":        {new(guard.Memory), new(guard.Memory)},
		"two names of a mark": {one, other},
		"two databases":       {one, &redisguard.Guard{Client: elsewhere}},
		"two sql.DBs":         {stdGuard(new(sql.DB), ""), stdGuard(new(sql.DB), "")},
	} {
		require.False(t, stores.one.Identity() == stores.other.Identity(), name)
	}
	require.Equal(t, (&sqlguard.Guard{DB: pool, Schema: "fencepost"}).Identity(), (&sqlguard.Guard{DB: pool}).Identity())
}

type identified interface{ Identity() any }

type unknownStore struct{ guard.Store }

func stdGuard(db *sql.DB, schema string) *stdsql.Guard {
	return &stdsql.Guard{DB: db, Schema: schema}
}

// overtaken returns the handlers that wrote, in order, and the newer one's status. The
// older one's context has ended if the newer one had to wait.
func overtaken(t *testing.T, one, other httpguard.Middleware) (writes []string, status int) {
	t.Helper()
	one.Resources, other.Resources = accounts, httpguard.Pattern("account/{id}")
	var mu sync.Mutex
	write := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		writes = append(writes, name)
	}
	ctx, end := underDoing(t, one, func() { write("older") })
	status = newerDoing(t, other, func(http.ResponseWriter, *http.Request) { write("newer") })
	require.Equal(t, status == http.StatusServiceUnavailable, ctx.Err() != nil)
	end()
	return writes, status
}

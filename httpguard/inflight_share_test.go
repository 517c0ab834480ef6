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
	var marks [3]guard.Memory
	var inFlights [3]httpguard.InFlight
	observed := guard.DangerouslyReportOnly{Store: &guard.Memory{}}
	for name, c := range map[string]struct {
		one, other httpguard.Middleware
		shared     bool
	}{
		"middlewares with one Store": {
			httpguard.Middleware{Resources: accounts, Store: &marks[0]},
			httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: &marks[0]}, true,
		},
		"middlewares with two Stores": {
			httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}},
			httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}}, false,
		},
		"middlewares without a Store": {
			httpguard.Middleware{Resources: accounts}, httpguard.Middleware{Resources: accounts}, false,
		},
		"middlewares with one Store, and another that observes it": {
			httpguard.Middleware{Resources: accounts, Store: observed},
			httpguard.Middleware{Resources: accounts, Store: observed.Store}, true,
		},
		"middlewares with one InFlight": {
			httpguard.Middleware{Resources: accounts, InFlight: &inFlights[0], Store: &guard.Memory{}},
			httpguard.Middleware{Resources: accounts, InFlight: &inFlights[0]}, true,
		},
		"a middleware that leaves it out": {
			httpguard.Middleware{Resources: accounts, InFlight: &inFlights[1], Store: &marks[1]},
			httpguard.Middleware{Resources: accounts, InFlight: &inFlights[1], Store: &guard.Memory{}, DangerouslySkipInFlight: true}, false,
		},
		"a middleware that observes": {
			httpguard.Middleware{Resources: accounts, InFlight: &inFlights[2], Store: &marks[2]},
			httpguard.Middleware{Resources: accounts, InFlight: &inFlights[2], Store: &guard.Memory{}, DangerouslyReportOnly: true}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, end := under(t, c.one)
			defer end()
			if c.shared {
				require.Equal(t, http.StatusServiceUnavailable, newer(t, c.other))
				require.Error(t, ctx.Err())
			} else {
				require.Equal(t, http.StatusNotFound, newer(t, c.other))
				require.NoError(t, ctx.Err())
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
		"one that observes":          {guard.DangerouslyReportOnly{Store: memory}, memory},
		"values that do not compare": {storeFunc(memory.Admit), storeFunc(memory.Admit)},
	} {
		t.Run(name, func(t *testing.T) {
			writes, status := overtaken(t, stores.one, stores.other)
			require.Equal(t, []string{"older"}, writes)
			require.Equal(t, http.StatusServiceUnavailable, status, "the newer one waits, and must retry")
		})
	}
	t.Run("the twin: values of which nothing is known", func(t *testing.T) {
		writes, status := overtaken(t, &unknownStore{memory}, &unknownStore{memory})
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

// overtaken returns the handlers that wrote, in order, and the newer one's status.
func overtaken(t *testing.T, one, other guard.Store) (writes []string, status int) {
	t.Helper()
	var mu sync.Mutex
	write := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		writes = append(writes, name)
	}
	_, end := underDoing(t, httpguard.Middleware{Resources: accounts, Store: one}, func() { write("older") })
	status = newerDoing(t, httpguard.Middleware{Resources: accounts, Store: other}, func(http.ResponseWriter, *http.Request) { write("newer") })
	end()
	return writes, status
}

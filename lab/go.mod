module github.com/fencepost/fencepost/lab

go 1.26.0

replace (
	github.com/fencepost/fencepost => ../
	github.com/fencepost/fencepost/contrib/redisquorum => ../contrib/redisquorum
)

require (
	github.com/fencepost/fencepost v0.1.0
	github.com/fencepost/fencepost/contrib/redisquorum v0.0.0
	github.com/go-sql-driver/mysql v1.8.1
	github.com/jackc/pgx/v5 v5.12.0
	github.com/redis/go-redis/v9 v9.0.0
	github.com/stretchr/testify v1.11.1
	golang.org/x/mod v0.38.0
)

require (
	filippo.io/edwards25519 v1.1.0 // indirect
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/pressly/goose/v3 v3.24.0 // indirect
	github.com/sethvargo/go-retry v0.3.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

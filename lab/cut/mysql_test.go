package cut_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestStressMariaDB(t *testing.T) {
	t.Parallel()
	maria(t, testenv.MariaDB(t), nil).attack()
}

func TestStressMariaDBOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := serverproc.Certificate(t)
	config, err := mysql.ParseDSN(testenv.OwnMariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key))
	require.NoError(t, err)
	_, err = maridb(t, config).ExecContext(t.Context(), "CREATE DATABASE bank")
	require.NoError(t, err)
	config.DBName = "bank"
	maria(t, config.FormatDSN(), trust(t, cert)).attack()
}

// trust returns settings of a client that trusts only this certificate.
func trust(t *testing.T, cert string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

func maridb(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	config = config.Clone()
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(2)
	return db
}

// maria returns MariaDB behind a relay. A successor evicts no session there.
func maria(t *testing.T, dsn string, secure *tls.Config) *site {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	clean := maridb(t, config)
	exec := func(text string, args ...any) {
		_, err := clean.ExecContext(context.WithoutCancel(t.Context()), text, args...)
		require.NoError(t, err)
	}
	number := func(text string, args ...any) (n int64) {
		require.NoError(t, clean.QueryRowContext(t.Context(), text, args...).Scan(&n))
		return n
	}
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), clean))
	exec("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)")
	exec("INSERT INTO accounts VALUES (42, 0)")
	r := newRelay(t, config.Addr)
	config.Addr, config.TLS = r.addr(), secure
	db := maridb(t, config)
	var usual string
	settings := "SELECT CONCAT(@@session.wait_timeout, ' ', @@autocommit, ' ', (SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()))"
	require.NoError(t, clean.QueryRowContext(t.Context(), settings).Scan(&usual))
	s := &site{
		T: t, name: t.Name(), relay: r, number: first, fresh: renew(db),
		check: func() error { return checked(t, db, settings, usual) },
		quiet: func(ports []int) bool {
			for _, port := range ports {
				if number("SELECT count(*) FROM information_schema.processlist WHERE host LIKE CONCAT('%:', ?)", port) > 0 {
					return false
				}
			}
			return true
		},
	}
	g := &stdsql.Guard{DB: clean, Dialect: stdsql.MySQL}
	for _, d := range stdDoors(t, db, &stdsql.Guard{DB: db, Dialect: stdsql.MySQL}, "UPDATE accounts SET balance = balance + 1 WHERE id = 42") {
		d.tokens, d.behind = everyToken, 1 // the session's setting is restored
		d.claim = func(ctx context.Context, tok token.Token) error {
			second := tok
			second.Resource = neighbour
			return errors.Join(g.Admit(ctx, tok), g.Admit(ctx, second))
		}
		d.reset = func() { exec("UPDATE accounts SET balance = 0") }
		d.count = func(token.Token) int64 { return number("SELECT balance FROM accounts WHERE id = 42") }
		switch d.name {
		case "Admit":
			d.tokens, d.mark = []string{"new", "stale"}, true
			d.count = func(tok token.Token) int64 {
				return number("SELECT count(*) FROM fencepost_marks WHERE resource = ? AND holder = ?", resource, tok.Holder)
			}
		case "Join":
			d.tokens, d.behind = []string{"claimed", "stale"}, 0
		}
		s.doors = append(s.doors, d)
	}
	return s
}

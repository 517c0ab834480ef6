package main

import (
	"context"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// server is a database of a test's own, with roles that have its prefix.
type server struct {
	*testing.T
	url    string
	prefix string
}

func newServer(t *testing.T, roles ...string) *server {
	t.Helper()
	s := &server{T: t}
	t.Cleanup(func() { // when the database is gone, which they own
		for _, role := range roles {
			s.exec(testenv.PostgresURL(t), "DROP ROLE IF EXISTS "+s.prefix+role)
		}
	})
	s.url = testenv.Database(t)
	config, err := pgx.ParseConfig(s.url)
	require.NoError(t, err)
	s.prefix = config.Database + "_"
	return s
}

// as is the URL for a role.
func (s *server) as(role string) string {
	u, err := url.Parse(s.url)
	require.NoError(s, err)
	u.User = url.UserPassword(s.prefix+role, "secret")
	return u.String()
}

func (s *server) exec(on, text string) {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	conn, err := pgx.Connect(ctx, on)
	require.NoError(s, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, text)
	require.NoError(s, err, text)
}

// The blocks of the page run from top to bottom, with the roles that the page assumes.
func TestTheRightsThatThePagePrints(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/migrations.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Rights\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)\n```(sql|sh)\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, blocks, 3)

	s := newServer(t, "app", "janitor", "operator", "admin", "fence_owner")
	s.exec(s.url, strings.ReplaceAll(`CREATE ROLE test_admin LOGIN CREATEROLE PASSWORD 'secret'; CREATE ROLE test_app LOGIN PASSWORD 'secret';
		CREATE ROLE test_janitor LOGIN PASSWORD 'secret'; CREATE ROLE test_operator LOGIN PASSWORD 'secret'`, "test_", s.prefix))
	s.exec(s.url, "ALTER DATABASE "+strings.TrimSuffix(s.prefix, "_")+" OWNER TO "+s.prefix+"admin")
	admin, err := url.Parse(s.as("admin"))
	require.NoError(t, err)
	roles := regexp.MustCompile(`\b(fence_owner|admin|app|janitor|operator)\b`)
	for _, block := range blocks {
		if block[1] == "sql" {
			s.exec(s.as("admin"), roles.ReplaceAllString(block[2], s.prefix+"$1"))
			continue
		}
		words := strings.Fields(block[2])
		require.Equal(t, []string{"fencepost", "migrate", "up", "--postgres"}, words[:4])
		printed, err := url.Parse(strings.Trim(words[4], "'"))
		require.NoError(t, err)
		query := admin.Query()
		query.Set("options", strings.ReplaceAll(printed.Query().Get("options"), "fence_owner", s.prefix+"fence_owner"))
		admin.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
		done := execute(t, append(words[1:4], admin.String())...)
		require.Zero(t, done.status, done.err)
	}
	s.exec(s.as("app"), "SELECT fencepost.admit('account/42', 999999999999999, 'forged')")

	for command, status := range map[string]int{
		"app migrate check": 0, "app marks list": 2,
		"janitor marks list": 0, "janitor marks prune --older-than 720h": 0, "janitor marks reset account/42 --confirm account/42": 2,
		"operator marks show account/42": 0, "operator marks prune --older-than 720h": 2,
	} {
		role, args, _ := strings.Cut(command, " ")
		done := execute(t, append(strings.Fields(args), "--postgres", s.as(role))...)
		require.Equal(t, status, done.status, "%s: %s", command, done.err)
	}
	done := execute(t, "marks", "reset", "account/42", "--confirm", "account/42", "--postgres", s.as("operator"))
	require.Zero(t, done.status, done.err)
	done = execute(t, "migrate", "status", "--postgres", admin.String())
	require.Zero(t, done.status, done.err+done.out)
}

package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

const pageForm = "application/x-www-form-urlencoded"

// basic is what a browser sends if its reader enters a bearer token as the password.
func basic(bearer string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("jo:"+bearer))}
}

// The page has the rights of the bearer token, and a form of another site has none.
//
// Package lab/browser has the page in a browser.
func TestThePageHasTheRightsOfItsReader(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rights")
	var lines string
	for bearer, rights := range map[string]string{"all": "acquire,read,break *", "reader": "read job/", "breaker": "read,break other/"} {
		lines += fmt.Sprintf("%s %x %s\n", bearer, sha256.Sum256([]byte(bearer)), rights)
	}
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	p := startServe(t, "--memory", "--rights", file)
	put := func(name, holder string) {
		t.Helper()
		r := p.putRequest(name, "a", 0)
		r.Header.Set("Authorization", "Bearer all")
		a, err := exchanged(r)
		require.NoError(t, err)
		require.Equal(t, 200, a.status, holder)
	}
	put("job/report", "a")
	for _, c := range []struct {
		bearer, path string
		status       int
		text         string
	}{
		{"", "/", 401, "Unauthorized"}, {"nobody", "/", 401, "Unauthorized"}, {"reader", "/", 403, "The credential has no right to read this lock."},
		{"reader", "/?prefix=job/", 200, "job/report"}, {"reader", "/?lock=job/report", 200, "a<small>~"}, {"reader", "/?lock=other/x", 403, "Forbidden"},
		{"all", "/?lock=job/free", 200, "The lock is free."}, {"all", "/?lock=%00", 400, "Invalid request"}, {"all", "/?prefix=nothing", 200, "No lock is held or waited for whose name begins with “nothing”."},
		{"all", "/nowhere", 404, ""},
	} {
		a := ask(t, "GET", p.url+c.path, "", basic(c.bearer)...)
		require.Equal(t, c.status, a.status, "%s: %s", c.bearer, c.path)
		require.Contains(t, a.body, c.text)
		require.Equal(t, c.status == 401, strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic "))
		if c.status != 404 {
			require.Regexp(t, `^default-src 'none'; .*frame-ancestors 'none'; style-src 'nonce-\w+'; script-src 'nonce-\w+'$`, a.header.Get("Content-Security-Policy"))
			require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		}
	}
	require.Equal(t, 401, ask(t, "GET", p.url+"/v1/locks/job/report", "", basic("all")...).status, "a browser's password is for the page only")

	id := url.Values{"holder": {"a"}, "reason": {"hangs"}, "unfenced": {"yes"}}
	breaks := func(status int, bearer, text string, header ...string) {
		t.Helper()
		a := ask(t, "POST", p.url+"/?lock=job/report", id.Encode(), append(append(basic(bearer), "Content-Type", pageForm), header...)...)
		require.Equal(t, status, a.status, a.body)
		require.Contains(t, a.body, text)
	}
	held := ask(t, "GET", p.url+"/v1/locks/job/report", "", "Authorization", "Bearer all").body
	breaks(409, "all", "Another holder has the lock now. Nothing was changed.")
	_, held, _ = strings.Cut(held, `"holder":"`)
	held, _, _ = strings.Cut(held, `"`)
	id.Set("holder", held)
	breaks(403, "reader", "no right to break this lock")
	breaks(403, "breaker", "no right to break this lock")
	breaks(401, "", "Unauthorized")
	breaks(403, "all", "", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	breaks(403, "all", "", "Origin", "https://evil.example")
	id.Del("unfenced")
	breaks(412, "all", "No guard would refuse the deposed holder")
	id.Set("unfenced", "yes")
	id.Set("reason", strings.Repeat("x", 300))
	breaks(400, "all", "Invalid request")
	id.Set("reason", strings.Repeat("x", 5000))
	breaks(400, "all", "")
	id.Set("reason", "hangs")
	breaks(200, "all", "Deposed", "Origin", p.url)
	require.Contains(t, ask(t, "GET", p.url+"/?lock=job/report", "", basic("all")...).body, "The lock is free.")
	require.NotContains(t, fmt.Sprint(p.log()), "hangs")
}

// The marks of each kind of guard, and names that are code in another place.
func TestThePageShowsMarks(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	client, prefix := testenv.Redis(t)
	mysql := newMarkedMySQL(t)
	p := startServe(t, "--memory", "--schema", schema, "--guard", testenv.PostgresURL(t), "--guard", testenv.RedisURL(t), "--guard", mysql.flags[1])
	const holder = `<script>alert(1)</script>`
	name := prefix + `/'"><b>{{.}}`
	require.Equal(t, 200, p.put(url.PathEscape(name), strings.ReplaceAll(holder, `"`, `'`), 0).status)
	require.NoError(t, (&redisguard.Guard{Client: client}).Admit(t.Context(), token.Token{Resource: name, Number: 33, Holder: holder}))
	pgtest.Exec(t, pool, "INSERT INTO "+pgtest.In(schema, "marks")+" (resource, number, holder) VALUES ($1, 34, 'postgres-holder')", name)
	_, err := mysql.DB.ExecContext(t.Context(), "INSERT INTO fencepost_marks (resource, number, holder) VALUES (?, 35, 'mysql-holder')", name)
	require.NoError(t, err)
	page := ask(t, "GET", p.url+"/?lock="+url.QueryEscape(name), "").body
	for _, text := range []string{">33 <small>", ">34 <small>", ">35 <small>", "postgres-holder", "mysql-holder", "&lt;script&gt;alert(1)&lt;/script&gt;<small></small></span> <small>has this lock", "/&#39;&#34;&gt;&lt;b&gt;{{.}}"} {
		require.Contains(t, page, text)
	}
	page += ask(t, "GET", p.url+"/", "").body
	require.NotContains(t, page, "<script>")
	require.NotContains(t, page, "<b>")
	require.NotContains(t, page, "sekret")

	pgtest.Exec(t, pool, "DROP TABLE "+pgtest.In(schema, "marks")+" CASCADE")
	page = ask(t, "GET", p.url+"/?lock="+url.QueryEscape(name), "").body
	require.Contains(t, page, "It was not read: the service&#39;s log has the reason.")
	require.Contains(t, page, ">33 <small>")
	p.line("a mark was not read")
}

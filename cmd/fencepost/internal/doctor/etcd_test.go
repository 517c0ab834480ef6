package doctor_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

func examineEtcd(t *testing.T, urls ...string) *doctor.Report {
	t.Helper()
	etcd, err := connect.NewEtcd(strings.Join(urls, ","), "")
	require.NoError(t, err)
	report, err := doctor.Etcd{Etcd: etcd}.Examine(t.Context())
	require.NoError(t, err)
	return report
}

// post sends a request to a member, as its root if auth is enabled, and returns the reply.
func post(t *testing.T, server *testenv.EtcdServer, path string, request map[string]any) (reply map[string]any) {
	t.Helper()
	etcd, err := connect.NewEtcd(server.URL(), "")
	require.NoError(t, err)
	defer etcd.Client.CloseIdleConnections()
	if _, err = etcd.Send(t.Context(), server.URL(), path, request, &reply); err != nil {
		etcd.User, etcd.Password = "root", "sekret"
		_, err = etcd.Send(t.Context(), server.URL(), path, request, &reply)
	}
	require.NoError(t, err, path)
	return reply
}

func TestMembersOfEtcdAreExamined(t *testing.T) {
	t.Parallel()
	three := testenv.EtcdCluster(t)
	urls := []string{three[0].URL(), three[1].URL(), three[2].URL()}
	sound(t, examineEtcd(t, urls...))
	alone(t, examineEtcd(t, urls[:2]...), "members", doctor.Warn, ": a program with these URLs asks no other member")

	one := testenv.OwnEtcd(t)
	alone(t, examineEtcd(t, one.URL()), "members", doctor.Warn, "1 have a vote; "+one.URL()+": 3.4")
	alone(t, examineEtcd(t, append(urls, one.URL())...), "members", doctor.Fail, ": these are several clusters")
	post(t, one, "/v3/cluster/member/add", map[string]any{"peerURLs": []string{"http://127.0.0.1:1"}, "isLearner": true})
	alone(t, examineEtcd(t, one.URL()), "members", doctor.Warn, "1 have a vote; ")
	closed := testenv.OwnEtcd(t, "--enable-grpc-gateway=false")
	found := of(t, examineEtcd(t, closed.URL()), "members")
	require.Equal(t, doctor.Fail, found.Verdict)
	require.Contains(t, found.Fix, "--enable-grpc-gateway")
	for _, alarm := range []string{"NOSPACE", "CORRUPT"} {
		post(t, one, "/v3/maintenance/alarm", map[string]any{"action": "ACTIVATE", "alarm": alarm})
		report := examineEtcd(t, one.URL())
		require.Equal(t, doctor.Fail, of(t, report, "members").Verdict)
		require.Contains(t, of(t, report, "members").Evidence, "alarm:"+alarm)
		require.Equal(t, doctor.Fail, of(t, report, "rights").Verdict, "what it is about")
		require.Contains(t, of(t, report, "rights").Fix, "the members")
		post(t, one, "/v3/maintenance/alarm", map[string]any{"action": "DEACTIVATE", "alarm": alarm})
	}
	alone(t, examineEtcd(t, one.URL()), "members", doctor.Warn, ": none of them may fail")

	third := post(t, three[2], "/v3/maintenance/status", map[string]any{})["header"].(map[string]any)["member_id"]
	three[2].Kill()
	testenv.EtcdLeader(three[:2]...)
	alone(t, examineEtcd(t, urls...), "members", doctor.Warn, "connection refused: the next loss may end the majority")
	post(t, testenv.EtcdLeader(three[:2]...), "/v3/cluster/member/remove", map[string]any{"ID": third})
	alone(t, examineEtcd(t, urls[:2]...), "members", doctor.Warn, "2 have a vote; ")
	three[1].Kill()
	require.Eventually(t, func() bool {
		f := of(t, examineEtcd(t, urls...), "members")
		return f.Verdict == doctor.Fail && strings.Contains(f.Evidence, "no leader")
	}, testTime, tick)
}

func TestRightsInEtcdAreExamined(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	named := func(user string) string { return strings.Replace(server.URL(), "//", "//"+user+":sekret@", 1) }
	for _, user := range []string{"root", "app"} {
		post(t, server, "/v3/auth/user/add", map[string]any{"name": user, "password": "sekret"})
		post(t, server, "/v3/auth/role/add", map[string]any{"name": user})
		post(t, server, "/v3/auth/user/grant", map[string]any{"user": user, "role": user})
	}
	post(t, server, "/v3/auth/enable", map[string]any{})
	rights := func(url string) doctor.Finding { return of(t, examineEtcd(t, url), "rights") }
	grant := func(kind, key, end string) {
		post(t, server, "/v3/auth/role/grant", map[string]any{"name": "app", "perm": map[string]any{"permType": kind, "key": []byte(key), "range_end": []byte(end)}})
	}

	require.Contains(t, rights(server.URL()).Fix, "a user and a password")
	require.Equal(t, doctor.Fail, rights(named("app")).Verdict)
	grant("READWRITE", "other/", "other0")
	require.Equal(t, doctor.Fail, rights(named("app")).Verdict)
	grant("READ", "fencepost/", "fencepost0")
	require.Equal(t, doctor.Fail, rights(named("app")).Verdict)
	grant("READWRITE", "fencepost/doctor", "")
	require.Equal(t, doctor.Pass, rights(named("app")).Verdict, "the transaction changes this key only, if any")
	post(t, server, "/v3/auth/role/revoke", map[string]any{"role": "app", "key": []byte("fencepost/"), "range_end": []byte("fencepost0")})
	require.Equal(t, "etcdctl role grant-permission … --prefix=true readwrite fencepost/", rights(named("app")+",http://127.0.0.1:1").Fix)
	grant("READ", "fencepost/", "")
	require.Equal(t, doctor.Fail, rights(named("app")).Verdict, "a key is not the prefix")
	grant("READWRITE", "fencepost/", "fencepost0")
	alone(t, examineEtcd(t, named("app")), "members", doctor.Warn, "none of them may fail")
	post(t, server, "/v3/auth/disable", map[string]any{})

	var all struct{ Count string }
	etcd, err := connect.NewEtcd(server.URL(), "")
	require.NoError(t, err)
	defer etcd.Client.CloseIdleConnections()
	require.NoError(t, etcd.SendAny(t.Context(), "/v3/kv/range", map[string]any{"key": []byte{0}, "range_end": []byte{0}}, &all))
	require.Empty(t, all.Count, "the doctor writes no key")
}

func TestTheClockOfEtcdIsExamined(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	target, err := url.Parse(server.URL())
	require.NoError(t, err)
	for ahead, verdict := range map[time.Duration]doctor.Verdict{0: doctor.Pass, time.Hour: doctor.Fail, -time.Hour: doctor.Fail, -10 * time.Second: doctor.Warn} {
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			ModifyResponse: func(r *http.Response) error {
				date, err := http.ParseTime(r.Header.Get("Date"))
				r.Header.Set("Date", date.Add(ahead).Format(http.TimeFormat))
				return err
			}})
		require.Equal(t, verdict, of(t, examineEtcd(t, proxy.URL), "clock").Verdict, ahead)
		proxy.Close()
	}
}

func TestAnEtcdThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	post(t, server, "/v3/auth/user/add", map[string]any{"name": "root", "password": "sekret"})
	post(t, server, "/v3/auth/user/grant", map[string]any{"user": "root", "role": "root"})
	post(t, server, "/v3/auth/enable", map[string]any{})
	for url, text := range map[string]string{
		"http://" + serverproc.Loopback(serverproc.FreePort(t)):                             "connection refused",
		strings.Replace(server.URL(), "//", "//root:sekret2@", 1):                           "user root: etcdserver: authentication failed",
		strings.Replace(server.URL(), "//", "//root:sek%72et3@", 1) + ",http://127.0.0.1:1": "user root: etcdserver: authentication failed",
	} {
		etcd, err := connect.NewEtcd(url, "")
		require.NoError(t, err)
		_, err = doctor.Etcd{Etcd: etcd}.Examine(t.Context())
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), "sek")
	}
}

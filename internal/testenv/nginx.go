package testenv

import (
	"net/http"
	"strings"
	"testing"
)

// EnvNginx names an nginx that lets anybody PUT and DELETE files below the URL's
// path, and makes the folders that a PUT lacks (dav_methods PUT DELETE;
// create_full_put_path on).
const EnvNginx = "FENCEPOST_TEST_NGINX_URL"

var sharedNginx = source{name: "nginx", env: EnvNginx, url: nginxURL, local: nginxProgram}

// Nginx returns the URL of a folder, without a slash at its end, whose files can
// be read, PUT and DELETEd over HTTP, and which is this test's alone. It is
// removed at the end of the test. The server is not Go and knows nothing of
// tokens.
func Nginx(t testing.TB) string {
	t.Helper()
	folder := strings.TrimSuffix(sharedNginx.URL(t), "/") + "/" + unique("fencepost-test-")
	t.Cleanup(func() {
		ctx, cancel := afterTest(t)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodDelete, folder+"/", nil)
		if err != nil {
			t.Errorf("testenv: %v", err)
			return
		}
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Errorf("testenv: remove the files of nginx: %v", err)
			return
		}
		answer.Body.Close()
		if answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotFound {
			t.Errorf("testenv: remove the files of nginx: %s", answer.Status)
		}
	})
	return folder
}

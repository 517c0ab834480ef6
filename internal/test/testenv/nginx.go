package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// EnvNginx names an nginx on which any client can PUT and DELETE files below the URL's
// path, and which makes missing folders (dav_methods PUT DELETE; create_full_put_path
// on).
const EnvNginx = "FENCEPOST_TEST_NGINX_URL"

var sharedNginx = source{name: "nginx", env: EnvNginx, url: nginxURL, local: nginxProgram}

// Nginx returns the URL of a folder, without a slash at its end, for this test only. Its
// files can be read, PUT and DELETEd over HTTP. It is removed at the end of the test. The
// server is not written in Go and does not support tokens.
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

//go:embed nginx.sh
var nginxScript string

func nginxURL(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

func nginxProgram() (serverproc.Program, error) {
	path, err := nginxBinary()
	if err != nil {
		return serverproc.Program{}, err
	}
	argv := func(_ string, port int) []string {
		return []string{"sh", "-c", nginxScript, "sh", path, fmt.Sprint(port)}
	}
	return serverproc.Program{
		Title: path, Argv: argv,
		// nginx logs its event method after it listens.
		Ready: `event method`, Signal: "TERM",
	}, nil
}

// nginxBinary also searches /usr/sbin, where Debian puts it and which may be missing from
// PATH.
func nginxBinary() (path string, err error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither PATH nor /usr/sbin has nginx")
}

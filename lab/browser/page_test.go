// Package browser tests the page of fencepost serve in Chromium, with a driver for it. It is a
// module of its own, since the driver needs others.
package browser

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	// hang is far above the seconds that the browser takes.
	hang = 2 * time.Minute
	// hostile is a holder that would change the title, if it were not escaped.
	hostile = `<img src=x onerror="document.title='owned'">`
	long    = time.Hour
)

// serve builds the command and runs it, and returns the URL and a client of the service.
func serve(t *testing.T, args ...string) (url string, client *httptoken.Issuer) {
	t.Helper()
	folder := t.TempDir()
	command, rights := filepath.Join(folder, "fencepost"), filepath.Join(folder, "rights")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", command, "github.com/fencepost/fencepost/cmd/fencepost")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.WriteFile(rights, fmt.Appendf(nil, "oncall %x acquire,read,break *\n", sha256.Sum256([]byte("sekret"))), 0o600))
	cmd := exec.CommandContext(t.Context(), command, append([]string{"serve", "--memory", "--listen", "127.0.0.1:0", "--log-format", "json", "--rights", rights}, args...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var line struct{ Address string }
	lines := bufio.NewScanner(stderr)
	require.True(t, lines.Scan())
	require.NoError(t, json.Unmarshal(lines.Bytes(), &line), lines.Text())
	require.NotEmpty(t, line.Address, lines.Text())
	go func() {
		for lines.Scan() {
			t.Log(lines.Text())
		}
	}()
	url = "http://" + line.Address
	return url, &httptoken.Issuer{URL: url, Bearer: "sekret", Operator: true}
}

// tab is a page of the browser.
type tab struct {
	*testing.T
	ctx context.Context
}

// browse opens a tab whose reader enters the bearer token as the password. What the page writes
// to the console fails the test.
func browse(t *testing.T) tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, hang)
	t.Cleanup(cancel)
	_, err := chromedp.Call(ctx, fetch.Enable, fetch.EnableParams{HandleAuthRequests: new(true)})
	require.NoError(t, err)
	console, paused, asked := chromedp.Console(ctx), chromedp.Events(ctx, fetch.RequestPaused), chromedp.Events(ctx, fetch.AuthRequired)
	go func() {
		for message, err := range console {
			if err == nil && !strings.HasSuffix(message.URL, "/favicon.ico") {
				t.Errorf("console: %s %s", message, message.URL)
			}
		}
	}()
	go func() {
		for e := range paused {
			_, _ = chromedp.Call(ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
		}
	}()
	go func() {
		for e := range asked {
			_, _ = chromedp.Call(ctx, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: e.RequestID, AuthChallengeResponse: &fetch.AuthChallengeResponse{
				Response: "ProvideCredentials", Username: "jo", Password: "sekret",
			}})
		}
	}()
	return tab{t, ctx}
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, steps...))
}

// keys presses keys, one after the other, and waits for an element.
func (b tab) keys(keys string, awaited chromedp.CSS) {
	b.Helper()
	for _, key := range keys {
		if key != '/' {
			b.do(chromedp.KeyEvent(string(key)))
			continue
		}
		// KeyEvent sends a character also if the script has prevented the key's default.
		for _, event := range []input.DispatchKeyEventParams{{Type: "keyDown", Key: "/", Text: "/"}, {Type: "keyUp", Key: "/"}} {
			_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, event)
			require.NoError(b, err)
		}
	}
	b.do(chromedp.WaitVisible(awaited))
}

// value returns the value of an expression in the page.
func value[T any](b tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b, err)
	return v
}

func (b tab) text() string {
	b.Helper()
	return value[string](b, "document.querySelector('main').innerText")
}

// unreadable lists the texts whose contrast with what is behind them is below 4.5 (WCAG 2.2),
// and the elements that end beyond the window.
const unreadable = `(() => {
  const rgb = (c) => c.match(/[\d.]+/g).map(Number), light = (c) => {
    const [r, g, b] = rgb(c).slice(0, 3).map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b + .05;
  };
  const behind = (e) => { const c = getComputedStyle(e).backgroundColor; return rgb(c)[3] === 0 ? e.parentElement ? behind(e.parentElement) : 'rgb(255,255,255)' : c; };
  return [...document.querySelectorAll('body *')].filter((e) => e.getClientRects().length).filter((e) => {
    const a = light(getComputedStyle(e).color), b = light(behind(e));
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    return text && Math.max(a, b) / Math.min(a, b) < 4.5 || e.getBoundingClientRect().right > innerWidth + .5;
  }).map((e) => e.outerHTML.slice(0, 120));
})()`

// look requires that the page can be read at every size and in both schemes. It writes
// screenshots if FENCEPOST_SCREENSHOTS names a folder.
func (b tab) look(name string) {
	b.Helper()
	for _, width := range []int64{1280, 400} {
		for scheme, ground := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"} {
			b.do(chromedp.EmulateViewport(width, 800))
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			require.NoError(b, err)
			require.Empty(b, value[[]string](b, unreadable), "%s, %d px, %s", name, width, scheme)
			require.Equal(b, ground, value[string](b, "getComputedStyle(document.body).backgroundColor"))
			require.NotEqual(b, "owned", value[string](b, "document.title"))
			if folder := os.Getenv("FENCEPOST_SCREENSHOTS"); folder != "" {
				picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				require.NoError(b, err)
				require.NoError(b, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o600))
			}
		}
	}
}

// An operator finds a lock, sees its holder, its waiters and its marks, and breaks it,
// with the keyboard alone.
func TestAnOperatorBreaksALock(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	url, locks := serve(t, "--guard", testenv.RedisURL(t))
	name := prefix + "/job/report"
	grant, err := locks.Acquire(t.Context(), name, "web-1:4711/report:7:c2f1a0b3d4e59687", long)
	require.NoError(t, err)
	require.NoError(t, (&redisguard.Guard{Client: client}).Admit(t.Context(), grant.Token))
	for other, holder := range map[string]string{"a/hostile": hostile, "a/" + strings.Repeat("long", 49): strings.Repeat("verylong", 21), "job/nightly": "cron-2:91/nightly:1:77aa0192c3d4e5f6"} {
		_, err := locks.Acquire(t.Context(), other, holder, long)
		require.NoError(t, err)
	}
	waiting := make(chan token.Grant, 1)
	for _, waiter := range []string{"web-2:512/report:3:99be01c2d3e4f5a6", hostile} {
		go func() {
			if grant, err := locks.Wait(t.Context(), name, waiter, long); err == nil {
				waiting <- grant
			}
		}()
		require.Eventually(t, func() bool {
			s, err := locks.Inspect(t.Context(), name)
			return err == nil && len(s.Waiters) > 0 && strings.HasPrefix(s.Waiters[len(s.Waiters)-1], waiter)
		}, hang, 10*time.Millisecond)
	}

	b := browse(t)
	const rows = "[...document.querySelectorAll('[data-lock]')].filter((r) => !r.hidden).map((r) => r.dataset.lock).join()"
	const focused = "document.activeElement.textContent"
	b.do(chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS("[data-lock]")))
	b.look("list")
	b.keys("/job", "[data-lock='job/nightly']")
	require.Equal(t, "job/nightly", value[string](b, rows), "of those that are shown")
	b.keys(kb.Enter, "[value=job]")
	require.Equal(t, url+"/?prefix=job", value[string](b, "location.href"))
	require.Equal(t, "job/nightly", value[string](b, rows))

	// The list shows a lock that is acquired meanwhile, and the link keeps its focus.
	b.keys("/"+kb.Tab+kb.Tab, "[href='/?lock=job%2fnightly']:focus")
	_, err = locks.Acquire(t.Context(), "job/new", "x", long)
	require.NoError(t, err)
	b.do(chromedp.WaitVisible(chromedp.CSS("[data-lock='job/new']")))
	require.Equal(t, "job/nightly", value[string](b, focused))
	b.keys(kb.Enter, "summary")
	require.Contains(t, b.text(), "cron-2:91/nightly:1:77aa0192c3d4e5f6~")

	b.do(chromedp.Navigate(url+"/?lock="+name), chromedp.WaitVisible(chromedp.CSS("summary")))
	b.look("lock")
	for _, text := range []string{"web-1:4711/report:7:c2f1a0b3d4e59687~", "web-2:512/report:3:99be01c2d3e4f5a6~", hostile, testenv.RedisURL(t), fmt.Sprint(grant.Token.Number), "has this lock"} {
		require.Contains(t, b.text(), text)
	}
	b.keys("/"+kb.Tab+kb.Tab+kb.Enter, ".danger")
	b.look("confirm")
	require.Equal(t, "Depose web-1:4711/report:7:c2f1a0b3d4e59687", value[string](b, "document.querySelector('.danger').textContent"))
	b.keys(kb.Tab+"it hangs"+kb.Tab+kb.Enter, ".done")
	b.look("done")
	require.Contains(t, b.text(), "Deposed web-1:4711/report:7:c2f1a0b3d4e59687~")
	require.Contains(t, b.text(), "it has admitted the number, and refuses lower ones")
	require.Equal(t, "web-2:512/report:3:99be01c2d3e4f5a6", (<-waiting).Token.Holder)
	mark, err := client.Get(t.Context(), redisguard.MarkKey(name)).Result()
	require.NoError(t, err)
	require.Contains(t, mark, " oncall/break: it hangs")
}

package timeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/timeline"
)

// measure loads each page in frames of several widths, light and dark, and lists the elements
// that end beyond a frame's margin, the entries of the legend that are broken across lines, and
// the signs that touch the time beside them. A frame has the colour scheme of its element. Of the
// README's picture it lists the texts that touch each other or the edge of their box.
const measure = `<!doctype html><meta charset="utf-8"><body><script>
for (let page = 0; page < PAGES; page++) for (const width of [400, 800, 1200]) for (const scheme of ['light', 'dark']) {
  const frame = document.createElement('iframe');
  frame.style = 'border:0;width:' + width + 'px;height:800px;color-scheme:' + scheme;
  frame.src = '/' + page;
  document.body.append(frame);
}
const svg = document.createElement('iframe');
svg.src = '/pause.svg';
svg.style = 'border:0;width:400px;height:700px';
document.body.append(svg);
onload = () => {
  const texts = [...svg.contentDocument.querySelectorAll('text')].map((e) => [e.textContent, e.getBBox()]);
  const boxes = [...svg.contentDocument.querySelectorAll('rect')].map((e) => e.getBBox()).filter((b) => b.width > 100);
  const apart = (a, b) => a.x >= b.x + b.width || b.x >= a.x + a.width || a.y >= b.y + b.height || b.y >= a.y + a.height;
  const within = (a, b) => a.x >= b.x + 4 && a.x + a.width <= b.x + b.width - 4 && a.y >= b.y + 4 && a.y + a.height <= b.y + b.height - 4;
  const crowded = texts.filter(([, a]) => boxes.some((b) => !apart(a, b) && !within(a, b)) || texts.some(([, b]) => a !== b && !apart(a, b)));
  svg.remove();
  const found = [...document.querySelectorAll('iframe')].map((frame) => {
    const view = frame.contentWindow, doc = view.document, box = (e) => e.getBoundingClientRect();
    const edge = box(doc.querySelector('main')).right - 12;
    const wide = [...doc.querySelectorAll('main *')].filter((e) => box(e).right > edge + 0.5);
    const broken = [...doc.querySelectorAll('.key span')].filter((e) => box(e).height > 24);
    const touching = [...doc.querySelectorAll('td:first-child + .lane span')].filter((e) => {
      const time = doc.createRange();
      time.selectNodeContents(e.parentElement.previousElementSibling);
      return box(e).left - 2 < box(time).right + 4;
    });
    return { Width: view.innerWidth, Scroll: doc.documentElement.scrollWidth, Dark: view.matchMedia('(prefers-color-scheme:dark)').matches,
      Rows: doc.querySelectorAll('tbody tr').length, Ground: view.getComputedStyle(doc.body).backgroundColor, Wide: wide.concat(broken, touching).map((e) => e.outerHTML.slice(0, 90)) };
  });
  document.body.innerHTML = '<pre id="found"></pre>';
  document.getElementById('found').textContent = JSON.stringify({ Frames: found, Crowded: crowded.map(([text]) => text), Texts: texts.length, Boxes: boxes.length });
};
</script>`

// chromium returns the browser's path. Its name differs between systems.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.FailNow(t, "timeline: the tests lack chromium: run 'make setup'")
	return ""
}

// pause is the README's picture.
const pause = "../../docs/pause.svg"

// hang is far above the seconds that the browser takes.
const hang = 2 * time.Minute

// browsed are the pages of simulate and of a test, and one in which every text is as long as
// possible.
func browsed(t *testing.T) []string {
	t.Helper()
	w := newWorld(5, false)
	w.name = func(i int) string { return fmt.Sprint(i, strings.Repeat("verylongname", 16), i) }
	h := w.turns(12, 400)
	for i := range h.Ops {
		h.Ops[i].Resource = strings.Repeat("resource", 25)
		h.Ops[i].Number -= 179519105562000 * int64(i%2) // numbers that share no digits
	}
	long := timeline.Page{Title: strings.Repeat("TestALongName", 20), Command: "go test -run '" + strings.Repeat("TestALongName/plan/", 20) + "'"}
	long.Likely = []string{strings.Repeat("unbroken", 40), "write over the pool: " + strings.Repeat("so it is ", 40)}
	long.Charts = []timeline.Chart{{Title: "random/" + strings.Repeat("3_holders_A_sleeps_at_7_undone_", 8), History: h}}
	two := recorded(t, "unguarded")
	return []string{drawn(t, two, recorded(t, "guarded"), two, two), drawn(t, unguarded(t, 2)), write(t, long)}
}

func TestStressAPageFitsAPhoneAndADesktop(t *testing.T) {
	t.Parallel()
	pages := browsed(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Replace(measure, "PAGES", fmt.Sprint(len(pages)), 1))
	})
	for i, text := range pages {
		mux.HandleFunc(fmt.Sprintf("GET /%d", i), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	mux.HandleFunc("GET /pause.svg", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, pause) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, chromium(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--user-data-dir="+t.TempDir(), "--dump-dom", server.URL)
	var said strings.Builder
	cmd.Stderr = &said
	dom, err := cmd.Output()
	require.NoError(t, err, said.String())
	found := regexp.MustCompile(`<pre id="found">(.*)</pre>`).FindSubmatch(dom)
	require.NotNil(t, found, "%s\n%s", dom, said.String())
	var measured struct {
		Frames []struct {
			Width, Scroll, Rows int
			Dark                bool
			Ground              string
			Wide                []string
		}
		Crowded      []string
		Texts, Boxes int
	}
	require.NoError(t, json.Unmarshal([]byte(strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(string(found[1]))), &measured))
	require.Empty(t, measured.Crowded, pause)
	require.Equal(t, []int{20, 3}, []int{measured.Texts, measured.Boxes}, pause)
	require.Len(t, measured.Frames, 6*len(pages), "three widths, light and dark")
	for i, f := range measured.Frames {
		require.Equal(t, []int{400, 800, 1200}[i/2%3], f.Width)
		require.LessOrEqual(t, f.Scroll, f.Width, "page %d scrolls sideways: %q", i/6, f.Wide)
		require.Empty(t, f.Wide)
		require.Greater(t, f.Rows, 10)
		require.Equal(t, map[bool]string{false: "rgb(255, 255, 255)", true: "rgb(20, 23, 28)"}[i%2 == 1], f.Ground)
		require.Equal(t, i%2 == 1, f.Dark)
	}
}

var colour = regexp.MustCompile(`--([a-z-]+):(#[0-9a-f]{3,6})\b`)

// Every text has a contrast of 4.5 with what is behind it, as WCAG 2.2 requires.
func TestTextsCanBeRead(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	light, dark, found := strings.Cut(string(page), "@media(prefers-color-scheme:dark)")
	require.True(t, found)
	for name, css := range map[string]string{"light": light, "dark": dark} {
		grounds, texts := map[string][3]float64{}, map[string][3]float64{}
		for i, c := range colour.FindAllStringSubmatch(css, -1) {
			switch c[1] {
			case "ground", "pink", "box", "warn":
				grounds[c[1]] = channels(t, c[2])
			case "text", "soft", "red", "hue":
				texts[fmt.Sprint(c[1], i)] = channels(t, c[2])
			}
		}
		require.Len(t, texts, 9, "six lanes, and three others")
		for text, rgb := range texts {
			for ground, behind := range grounds {
				if strings.HasPrefix(text, "soft") && ground != "ground" {
					continue
				}
				require.GreaterOrEqual(t, contrast(rgb, behind), 4.5, "%s: %s on %s", name, text, ground)
			}
			tinted := grounds["ground"] // as the mark is
			for i := range tinted {
				tinted[i] = 0.9*tinted[i] + 0.1*rgb[i]
			}
			require.GreaterOrEqual(t, contrast(rgb, tinted), 4.5, "%s: %s on its tint", name, text)
		}
	}
}

func TestTextsOfTheReadmesPictureCanBeRead(t *testing.T) {
	t.Parallel()
	picture, err := os.ReadFile(pause)
	require.NoError(t, err)
	light, dark, found := strings.Cut(string(picture), "@media (prefers-color-scheme:dark)")
	require.True(t, found)
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string][3]float64{}
		for _, c := range colour.FindAllStringSubmatch(css, -1) {
			colours[c[1]] = channels(t, c[2])
		}
		require.Len(t, colours, 9)
		for ground, texts := range map[string]string{"ground": "text soft a b", "bad-ground": "text soft bad", "good-ground": "text soft b"} {
			for _, text := range strings.Fields(texts) {
				require.GreaterOrEqual(t, contrast(colours[text], colours[ground]), 4.5, "%s: %s on %s", name, text, ground)
			}
		}
	}
}

func channels(t *testing.T, hex string) (rgb [3]float64) {
	t.Helper()
	if len(hex) == 4 {
		hex = "#" + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:3], 2) + strings.Repeat(hex[3:], 2)
	}
	for i := range rgb {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		require.NoError(t, err)
		rgb[i] = float64(n) / 255
	}
	return rgb
}

func contrast(a, b [3]float64) float64 {
	luminance := func(rgb [3]float64) (sum float64) {
		for i, c := range rgb {
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += c * [3]float64{0.2126, 0.7152, 0.0722}[i]
		}
		return sum
	}
	low, high := min(luminance(a), luminance(b)), max(luminance(a), luminance(b))
	return (high + 0.05) / (low + 0.05)
}

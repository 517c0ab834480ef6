package timeline_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

func html(t *testing.T, p timeline.Page) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, timeline.Write(&out, p))
	return out.String()
}

func onePage(charts ...timeline.Chart) timeline.Page {
	return timeline.Page{Title: "A page", Lead: "What it is.", Again: "fencepost simulate", Charts: charts}
}

func TestAPageLoadsNothing(t *testing.T) {
	t.Parallel()
	text := html(t, onePage(unguarded(t, 1), guarded(t, 2)))
	require.NotRegexp(t, `(?i)<script|<link|<img|<iframe|@import|@font-face|url\(|\s(src|href)=`, text)
	require.NotContains(t, text, "http://")
	require.NotContains(t, text, "https://")
	require.Contains(t, text, "prefers-color-scheme:dark")
	require.Contains(t, text, "@media print")
	require.Contains(t, text, `name="viewport"`)
}

func TestTheSamePageIsTheSameBytes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		p := onePage(unguarded(t, seed), guarded(t, seed))
		once, again := html(t, p), html(t, p)
		require.Equal(t, once, again)
	}
}

func TestAPageHasTheRuleTheOpsAndTheCommand(t *testing.T) {
	t.Parallel()
	s := unguarded(t, 2)
	require.NotEmpty(t, s.Violations)
	text := html(t, onePage(s))
	require.Contains(t, text, "<b>Broken: order.</b> No write is accepted below one that was accepted before it began.")
	require.Contains(t, text, "<code>fencepost simulate</code>")
	require.Equal(t, len(s.History.Ops), strings.Count(text, "<tr>")+strings.Count(text, `<tr class="bad">`)-1, "a row for each op, and the header")
	require.Equal(t, 2, strings.Count(text, `<tr class="bad">`))
	for _, op := range s.History.Ops {
		require.Contains(t, text, op.Holder)
	}
}

func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	names := []string{
		"<script>alert(1)</script>", `"onload="alert(1)`, strings.Repeat("é\"<", 50), "a\x00b\x1b[31m\u202eevil\xff", "]]>--></style></svg>", "' &amp;",
	}
	w := newWorld(3, false)
	w.name = func(i int) string { return names[i] }
	h := w.turns(len(names), 30)
	for i := range h.Ops {
		h.Ops[i].Resource, h.Ops[i].Note = names[2], names[i%len(names)]
	}
	s := chart(t, h)
	s.Title, s.Lead = names[0], names[4]
	text := html(t, timeline.Page{Title: names[0], Lead: names[1], Again: names[3], Charts: []timeline.Chart{s}})
	tags := regexp.MustCompile(`<[^>]*>`).FindAllString(text, -1)
	for _, tag := range tags {
		require.Regexp(t, `^</?(!doctype|html|head|meta|title|style|body|main|header|h1|h2|p|section|figure|div|svg|desc|g|path|rect|circle|text|ul|ol|li|i|em|span|figcaption|details|summary|table|thead|tbody|tr|th|td|b|br|wbr|pre|code)[ >]`, tag)
		require.NotContains(t, tag, "alert")
	}
	require.NotContains(t, text, "\x00")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, `\u202eevil\xff`)
	require.NotEmpty(t, svg(t, s).class("request"), "the SVG is well-formed")
}

func TestAnEmptyHistorySaysSo(t *testing.T) {
	t.Parallel()
	require.Contains(t, html(t, onePage(timeline.Chart{Title: "Nothing"})), "Nothing happened")
	require.Contains(t, html(t, timeline.Page{}), "<!doctype html>")
	root := svg(t, timeline.Chart{})
	require.Contains(t, root.class("soft")[0].Text, "Nothing happened")
}

func TestInstantsAndUnknownsHavePlacesToo(t *testing.T) {
	t.Parallel()
	kinds := []history.Kind{history.Acquire, history.Renew, history.Release, history.Claim, history.Write, history.Unit, history.Read, history.Mark, history.Fault}
	for _, kind := range kinds {
		for _, outcome := range []history.Outcome{history.Accepted, history.Refused, history.Unknown, history.Failed} {
			h := history.History{Ops: []history.Op{{Kind: kind, Writer: "A", Resource: resource, Outcome: outcome}}}
			require.Contains(t, html(t, onePage(timeline.Chart{History: h})), "1 op, with all")
			require.NotPanics(t, func() { svg(t, timeline.Chart{History: h}) })
		}
	}
}

// node is an element of an SVG.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Nodes   []node     `xml:",any"`
	Text    string     `xml:",chardata"`
}

func (n node) attr(name string) string {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (n node) number(t *testing.T, name string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(n.attr(name), 64)
	require.NoError(t, err)
	return x
}

// is reports whether n has a class.
func (n node) is(class string) bool {
	return strings.Contains(" "+n.attr("class")+" ", " "+class+" ")
}

// all returns the nodes below n for which wanted returns true.
func (n node) all(wanted func(node) bool) []node {
	var found []node
	for _, child := range n.Nodes {
		if wanted(child) {
			found = append(found, child)
		}
		found = append(found, child.all(wanted)...)
	}
	return found
}

func (n node) class(class string) []node {
	return n.all(func(n node) bool { return n.is(class) && n.XMLName.Local != "g" })
}

// svg parses a chart that is drawn alone.
func svg(t *testing.T, s timeline.Chart) node {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, timeline.WriteSVG(&out, s))
	var root node
	d := xml.NewDecoder(&out)
	d.Strict = true
	require.NoError(t, d.Decode(&root))
	require.Equal(t, "http://www.w3.org/2000/svg", root.XMLName.Space)
	return root
}

var begins = regexp.MustCompile(`^M(-?[0-9.]+) (-?[0-9.]+)`)

// begin returns the first point of a path.
func (n node) begin(t *testing.T) (x, y float64) {
	t.Helper()
	found := begins.FindStringSubmatch(n.attr("d"))
	require.NotNil(t, found, n.attr("d"))
	x, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	y, err = strconv.ParseFloat(found[2], 64)
	require.NoError(t, err)
	return x, y
}

func TestAPictureAloneIsComplete(t *testing.T) {
	t.Parallel()
	root := svg(t, unguarded(t, 1))
	ground := root.Nodes[3]
	require.Equal(t, "rect", ground.XMLName.Local)
	require.Equal(t, "#fff", ground.attr("fill"))
	require.Equal(t, root.attr("width"), ground.attr("width"))
	require.Equal(t, "img", root.attr("role"))
	require.Equal(t, "A chart", root.Nodes[0].Text)
	require.Contains(t, root.Nodes[1].Text, "Under them the mark of account/42")
	require.NotContains(t, root.Nodes[2].Text, "@media", "the same in light and dark mode")
}

var update = flag.Bool("update", false, "write the README's pictures anew")

// The README's pictures are two recorded rounds of `fencepost simulate`, with shorter
// names.
func TestThePicturesOfTheReadme(t *testing.T) {
	t.Parallel()
	for name, title := range map[string]string{
		"unguarded": "The lock alone: A writes over what B was told is stored",
		"guarded":   "The same moment, guarded: A is refused",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chart := timeline.Chart{Title: title, History: recorded(t, "testdata/"+name+".json")}
			broken, err := history.Check(chart.History)
			require.NoError(t, err)
			require.Equal(t, name == "unguarded", len(broken) > 0)
			chart.Violations = broken
			var drawn bytes.Buffer
			require.NoError(t, timeline.WriteSVG(&drawn, chart))
			file := "../../docs/" + name + ".svg"
			if *update {
				require.NoError(t, os.WriteFile(file, drawn.Bytes(), 0o644))
			}
			committed, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(committed), drawn.String(), "go test ./internal/timeline -run Readme -update")
		})
	}
}

// recorded reads a history from a Recorder's report: one line for each op.
func recorded(t *testing.T, name string) (h history.History) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	lines := history.NewDecoder(file)
	for {
		line, err := lines.Decode()
		if errors.Is(err, io.EOF) {
			return h
		}
		require.NoError(t, err)
		h.Ops = append(h.Ops, line.Op)
	}
}

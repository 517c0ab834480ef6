package picture_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/picture"
	"github.com/fencepost/fencepost/simulations/history"
)

func html(t *testing.T, p picture.Page) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, picture.Write(&out, p))
	return out.String()
}

func onePage(scenes ...picture.Scene) picture.Page {
	return picture.Page{Title: "A page", Lead: "What it is.", Again: "fencepost simulate", Scenes: scenes}
}

func TestAPageNeedsNothingFromElsewhere(t *testing.T) {
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

func TestAPageSaysTheRuleTheOpsAndHowToHaveItAgain(t *testing.T) {
	t.Parallel()
	s := unguarded(t, 2)
	require.NotEmpty(t, s.Violations)
	text := html(t, onePage(s))
	require.Contains(t, text, "<b>Broken: order.</b> No write is accepted below one that was accepted before it began.")
	require.Contains(t, text, "<code>fencepost simulate</code>")
	require.Equal(t, len(s.History.Ops), strings.Count(text, "<tr>")+strings.Count(text, `<tr class="bad">`)-1, "a row each, and one above")
	require.Equal(t, 2, strings.Count(text, `<tr class="bad">`))
	for _, op := range s.History.Ops {
		require.Contains(t, text, op.Holder)
	}
}

func TestNamesAreTextWhateverIsInThem(t *testing.T) {
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
	s := scene(t, h)
	s.Title, s.Lead = names[0], names[4]
	text := html(t, picture.Page{Title: names[0], Lead: names[1], Again: names[3], Scenes: []picture.Scene{s}})
	tags := regexp.MustCompile(`<[^>]*>`).FindAllString(text, -1)
	for _, tag := range tags {
		require.Regexp(t, `^</?(!doctype|html|head|meta|title|style|body|main|header|h1|h2|p|section|figure|div|svg|desc|g|path|rect|circle|text|ul|li|span|figcaption|details|summary|table|thead|tbody|tr|th|td|b|br|pre|code)[ >]`, tag)
		require.NotContains(t, tag, "alert")
	}
	require.NotContains(t, text, "\x00")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, `\u202eevil\xff`)
	require.NotEmpty(t, svg(t, s).class("request"), "and it is well-formed")
}

func TestAnEmptyHistorySaysSo(t *testing.T) {
	t.Parallel()
	require.Contains(t, html(t, onePage(picture.Scene{Title: "Nothing"})), "Nothing happened")
	require.Contains(t, html(t, picture.Page{}), "<!doctype html>")
	root := svg(t, picture.Scene{})
	require.Contains(t, root.class("soft")[0].Text, "Nothing happened")
}

func TestInstantsAndUnknownsHavePlacesToo(t *testing.T) {
	t.Parallel()
	kinds := []history.Kind{history.Acquire, history.Renew, history.Release, history.Claim, history.Write, history.Unit, history.Read, history.Mark, history.Fault}
	for _, kind := range kinds {
		for _, outcome := range []history.Outcome{history.Accepted, history.Refused, history.Unknown, history.Failed} {
			h := history.History{Ops: []history.Op{{Kind: kind, Writer: "A", Resource: resource, Outcome: outcome}}}
			require.Contains(t, html(t, onePage(picture.Scene{History: h})), "1 op, with all")
			require.NotPanics(t, func() { svg(t, picture.Scene{History: h}) })
		}
	}
}

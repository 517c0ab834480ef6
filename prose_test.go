package fencepost_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// maxColumns is the width of a line of prose in Markdown.
const maxColumns = 100

var (
	// vagueActor matches words that leave out which party acts. Name it: the server, the
	// client, the caller, the waiter, the holder. A phrase may span two lines.
	vagueActor = regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|everybody|whoever|whom|no(?:[ \t]+|[ \t]*\n[ \t]*)one)(?:[^-\w]|$)`)

	fence     = regexp.MustCompile("^ *(?:[-*>] +)*(```+|~~~+)")
	linkOrTag = regexp.MustCompile(`!?\[(?:[^\[\]]|!?\[[^\[\]]*\]\([^()]*\))*\]\([^()]*\)|^\[[^\]]+\]: .*$|<[^>]+>|https?://\S+`)
	letters   = regexp.MustCompile(`[\pL\pN]`)
	wideLine  = regexp.MustCompile(`^\s*(?:\||#{1,6} )`)
	notProse  = regexp.MustCompile("^(?:#|\\||```|~~~|[-*+>] |\\d+[.)] |<|!\\[|    |\t|\\[[^\\]]+\\]: )")
)

func TestTextNamesWhoActs(t *testing.T) {
	t.Parallel()
	var found []string
	for _, file := range proseFiles(t) {
		found = append(found, vagueActors(file, readFile(t, file))...)
	}
	report(t, found)
}

func TestMarkdownLinesAreShort(t *testing.T) {
	t.Parallel()
	var found []string
	for _, file := range proseFiles(t) {
		if filepath.Ext(file) == ".md" {
			found = append(found, longLines(file, readFile(t, file))...)
		}
	}
	report(t, found)
}

func TestEachPageBeginsWithItsPurpose(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	var found []string
	for _, page := range pages {
		found = append(found, pageStart(page, readFile(t, page))...)
	}
	report(t, found)
}

func TestVagueActorsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, text string
		lines            []int
	}{
		{"Go comment", "a.go", "package a\n\n// Nobody waits.\nvar x = 1 // for whom?\n/* a\nsomebody */\n", []int{3, 4, 6}},
		{"Go string", "a.go", "package a\n\nvar x = \"nobody\" + `// whom`\n", nil},
		{"Go phrase over two lines", "a.go", "package a\n\n// f returns if no\n// one waits.\nfunc f() {}\n", []int{3}},
		{"longer words", "a.go", "package a\n\n// whomsoever, no one-way door, no ones, none\n", nil},
		{"SQL", "a.sql", "-- anybody's\nSELECT 'nobody'; -- whoever\n/* everybody */\n", []int{1, 2, 3}},
		{"Lua", "a.lua", "return 'nobody' -- no one.\n", []int{1}},
		{"shell", "a.sh", "echo nobody # somebody\n", []int{1}},
		{"script by its first line", "scripts/a", "#!/bin/sh\n# whom\n", []int{2}},
		{"make", "Makefile", "test: ## no one\n", []int{1}},
		{"Markdown", "a.md", "# Nobody\n\nno\none\n\n```sh\nsu nobody\n```\nwhoever\n", []int{1, 3, 9}},
		{"Markdown code in a list", "a.md", "- item\n  ```\n  nobody\n  ```\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireLines(t, c.file, c.lines, vagueActors(c.file, c.text))
		})
	}
}

func TestLongLinesAreFound(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 21)
	url := "https://example.com/" + strings.Repeat("a", 100)
	for _, c := range []struct {
		name, text string
		lines      []int
	}{
		{"prose", "short\n" + long + "\n", []int{2}},
		{"list", "- " + long + "\n", []int{1}},
		{"hundred columns", strings.Repeat("é", 100) + "\n" + strings.Repeat("é", 101) + "\n", []int{2}},
		{"heading and table", "## " + long + "\n\n| " + long + " |\n", nil},
		{"code", "```\n" + long + "\n```\n~~~\n" + long + "\n~~~\n", nil},
		{"only links", "- [a](" + url + "), [b](" + url + ")\n[c]: " + url + "\n[![d](" + url + ")](" + url + ")\n", nil},
		{"prose with a link", "See [a](" + url + ").\n", []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireLines(t, "a.md", c.lines, longLines("a.md", c.text))
		})
	}
}

func TestPagesWithoutAPurposeAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		lines      []int
	}{
		{"heading and paragraph", "# Title\n\nThis page is for operators.\n", nil},
		{"paragraph in code style", "# Title\n\n`run` holds a lock.\n", nil},
		{"paragraph in bold", "# Title\n\n**Run** holds a lock.\n", nil},
		{"no heading", "This page.\n", []int{1}},
		{"second-level heading", "## Title\n\nThis page.\n", []int{1}},
		{"table first", "# Title\n\n| a |\n|---|\n", []int{3}},
		{"code first", "# Title\n\n```sh\nls\n```\n", []int{3}},
		{"list first", "# Title\n- a\n", []int{2}},
		{"heading first", "# Title\n\n## Part\n", []int{3}},
		{"only a heading", "# Title\n", []int{1}},
		{"empty", "", []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireLines(t, "a.md", c.lines, pageStart("a.md", c.text))
		})
	}
}

// vagueActors returns a finding for each match of vagueActor in the comments of text, or
// in its prose if file is a Markdown page.
func vagueActors(file, text string) []string {
	var prose string
	switch {
	case strings.HasSuffix(file, ".go"):
		var err error
		if prose, err = goComments(text); err != nil {
			return []string{fmt.Sprintf("%s:1: %v", file, err)}
		}
	case strings.HasSuffix(file, ".md"):
		prose = markdownProse(text)
	case strings.HasSuffix(file, ".sql"), strings.HasSuffix(file, ".lua"):
		prose = keep(text, regexp.MustCompile(`(?s)/\*.*?\*/|--[^\n]*`).FindAllStringIndex(text, -1))
	default:
		prose = keep(text, regexp.MustCompile(`(?m)(?:^|\s)#.*$`).FindAllStringIndex(text, -1))
	}
	var found []string
	for _, at := range vagueActor.FindAllStringSubmatchIndex(prose, -1) {
		word := strings.Join(strings.Fields(prose[at[2]:at[3]]), " ")
		line := 1 + strings.Count(prose[:at[2]], "\n")
		found = append(found, fmt.Sprintf("%s:%d: %q: name the party that acts", file, line, word))
	}
	return found
}

// longLines returns a finding for each line of prose wider than maxColumns. Tables,
// headings, code and lines that consist of links may be wider.
func longLines(file, text string) []string {
	var found []string
	for i, line := range strings.Split(markdownProse(text), "\n") {
		columns := utf8.RuneCountInString(line)
		onlyLinks := !letters.MatchString(linkOrTag.ReplaceAllString(line, ""))
		if columns > maxColumns && !wideLine.MatchString(line) && !onlyLinks {
			found = append(found, fmt.Sprintf("%s:%d: %d columns, and %d are allowed", file, i+1, columns, maxColumns))
		}
	}
	return found
}

// pageStart returns a finding unless text begins with a title and a paragraph.
func pageStart(file, text string) []string {
	title := false
	last := 1
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		last = i + 1
		if title {
			if notProse.MatchString(line) {
				return []string{fmt.Sprintf("%s:%d: a paragraph about the purpose of the page has to follow the title", file, last)}
			}
			return nil
		}
		if !strings.HasPrefix(line, "# ") {
			break
		}
		title = true
	}
	return []string{fmt.Sprintf("%s:%d: the page has to begin with a title and a paragraph", file, last)}
}

// goComments returns text with all but its comments blanked.
func goComments(text string) (string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var comments [][]int
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			start := files.PositionFor(comment.Pos(), false).Offset
			comments = append(comments, []int{start + len("//"), start + len(comment.Text)})
		}
	}
	return keep(text, comments), nil
}

// markdownProse returns text with fenced code blanked.
func markdownProse(text string) string {
	lines := strings.Split(text, "\n")
	open := ""
	for i, line := range lines {
		mark := fence.FindStringSubmatch(line)
		switch {
		case open == "" && mark != nil:
			open = mark[1]
			lines[i] = ""
		case open != "":
			if mark != nil && strings.HasPrefix(mark[1], open) {
				open = ""
			}
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}

// keep returns text with all bytes outside ranges, and comment marks at the start of each
// line in them, replaced by spaces. Lines keep their numbers and bytes their offsets.
func keep(text string, ranges [][]int) string {
	kept := []byte(regexp.MustCompile(`[^\n]`).ReplaceAllStringFunc(text, func(r string) string {
		return strings.Repeat(" ", len(r))
	}))
	for _, at := range ranges {
		start := at[0]
		for start < at[1] && strings.IndexByte("/*-# \t", text[start]) >= 0 {
			start++
		}
		copy(kept[start:at[1]], text[start:at[1]])
	}
	return string(kept)
}

// proseFiles returns the files of the repository that hold comments or prose.
func proseFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		path = filepath.ToSlash(path)
		switch filepath.Ext(path) {
		case ".go", ".sql", ".lua", ".sh", ".md":
			files = append(files, path)
		case "":
			if path == "Makefile" || path == ".ci/run" || strings.HasPrefix(path, "scripts/") {
				files = append(files, path)
			}
		}
		return nil
	}))
	require.Greater(t, len(files), 100)
	return files
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func report(t *testing.T, found []string) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("%d findings:\n%s", len(found), strings.Join(found, "\n"))
	}
}

// requireLines fails t unless found names exactly these lines of file.
func requireLines(t *testing.T, file string, lines []int, found []string) {
	t.Helper()
	require.Len(t, found, len(lines), "%v", found)
	for i, line := range lines {
		require.Contains(t, found[i], fmt.Sprintf("%s:%d: ", file, line))
	}
}

package picture_test

import (
	"bytes"
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/picture"
)

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

// is says that a class is among those of n.
func (n node) is(class string) bool {
	return strings.Contains(" "+n.attr("class")+" ", " "+class+" ")
}

// all finds what is below n.
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

// svg parses a scene that is drawn alone.
func svg(t *testing.T, s picture.Scene) node {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, picture.WriteSVG(&out, s))
	var root node
	d := xml.NewDecoder(&out)
	d.Strict = true
	require.NoError(t, d.Decode(&root))
	require.Equal(t, "http://www.w3.org/2000/svg", root.XMLName.Space)
	return root
}

var begins = regexp.MustCompile(`^M(-?[0-9.]+) (-?[0-9.]+)`)

// begin is where a path begins.
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

func TestAPictureAloneStandsOnItsOwn(t *testing.T) {
	t.Parallel()
	root := svg(t, unguarded(t, 1))
	ground := root.Nodes[3]
	require.Equal(t, "rect", ground.XMLName.Local)
	require.Equal(t, "#fff", ground.attr("fill"))
	require.Equal(t, root.attr("width"), ground.attr("width"))
	require.Equal(t, "img", root.attr("role"))
	require.Equal(t, "A scene", root.Nodes[0].Text)
	require.Contains(t, root.Nodes[1].Text, "Under them the mark of account/42")
	require.NotContains(t, root.Nodes[2].Text, "@media", "the same on every ground")
}

package proxy

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnambiguous(t *testing.T) {
	t.Parallel()
	for path, fine := range map[string]bool{
		"/": true, "/a": true, "/a/": true, "/a/42": true, "/a/%34%32": true, "/a/gr%C3%B6%C3%9Fe": true, "/a/100%25": true,
		"/a/%2541": false, "/a/%252f": false, "/a/%25u002f": false,
		"": false, "//": false, "//a": false, "/a//b": false, "/a//": false,
		"/.": false, "/..": false, "/a/../b": false, "/a/%2e%2e/b": false, "/a/%2E/b": false, "/a/..": false, "/a/...": true, "/a/.b": true,
		"/a%2fb": false, "/a%2Fb": false, "/a%5cb": false, "/a;b=c": false, "/a%3bb": false, "/a/%00": false, "/a/%0a": false,
		"/a/%7f": false, "/a/%ff": false, "/a/b%20": true,
	} {
		u, err := url.ParseRequestURI("http://host" + path)
		require.NoError(t, err)
		require.Equal(t, fine, checkPath(u) == nil, "%s: %v", path, checkPath(u))
	}
}

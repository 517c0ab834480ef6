package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lab/kubernetes applies what the command prints, on an API server.
func TestKubernetesPolicy(t *testing.T) {
	t.Parallel()
	done := execute(t, strings.Fields("kubernetes policy --resource configmaps --resource widgets.example.com --resource deployments/scale.apps --lease a --lease b.c --namespace shop")...)
	require.Zero(t, done.status, done.err)
	require.Empty(t, done.err)
	for text, times := range map[string]int{
		`    - apiGroups: [""]`:            2,
		`    - apiGroups: ["example.com"]`: 2,
		`    - apiGroups: ["apps"]`:        2,
		`apiVersions: ["*"]`:               6,
		`resources: ["widgets", "widgets/status", "widgets/approval", "widgets/finalize"]`: 2,
		`resources: ["deployments/scale"]`:                                                 2,
		"kind: ValidatingAdmissionPolicy\n":                                                2,
		"kind: ValidatingAdmissionPolicyBinding\n":                                         3,
		"metadata: {name: fencepost-lease-shop.b.c}":                                       1,
		// Quoted, since null and 1.50 are names too.
		`paramRef: {name: "b.c", namespace: "shop", `:                      1,
		`objectSelector: {matchLabels: {fencepost.dev/lease: "shop.b.c"}}`: 1,
		`objectSelector: {matchLabels: {fencepost.dev/lease: "shop.a"}}`:   1,
	} {
		require.Equal(t, times, strings.Count(done.out, text), text)
	}
	for args, text := range map[string]string{
		"--lease a":                                       "missing flags: --resource=RESOURCE",
		"--resource configmaps":                           "missing flags: --lease=NAME",
		"--resource configmaps/v1 --lease a":              `--resource: "configmaps/v1" is not RESOURCE[/scale][.GROUP], as`,
		"--resource apps/deployments --lease a":           `--resource: "apps/deployments" is not`,
		"--resource d/status.apps --lease a":              `"d/status.apps" is not`,
		"--resource configmaps --lease A/b":               `--lease: "A/b" is not the name of a Lease`,
		"--resource c --lease a --namespace b.c":          `--namespace: "b.c" is not the name of a namespace`,
		"--resource c --lease " + strings.Repeat("x", 56): "default." + strings.Repeat("x", 56) + " has 64 bytes, and Kubernetes allows 63",
		"--resource x/y --lease X --namespace -":          "--lease",
	} {
		requireFailed(t, execute(t, append([]string{"kubernetes", "policy"}, strings.Fields(args)...)...), 2, text)
	}
}

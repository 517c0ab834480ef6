package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lab/kubernetes applies what the command prints, on an API server.
func TestKubernetesPolicy(t *testing.T) {
	t.Parallel()
	done := execute(t, strings.Fields("kubernetes policy --resource configmaps/v1 --resource widgets.example.com/v1beta1 --resource deployments/scale.apps/v1 --lease a --lease b.c --namespace shop")...)
	require.Zero(t, done.status, done.err)
	require.Empty(t, done.err)
	for text, times := range map[string]int{
		`apiGroups: [""], apiVersions: ["v1"], operations: [CREATE, UPDATE, DELETE], resources: ["configmaps", "configmaps/status"]`:           2,
		`apiGroups: ["example.com"], apiVersions: ["v1beta1"], operations: [CREATE, UPDATE, DELETE], resources: ["widgets", "widgets/status"]`: 2,
		`apiGroups: ["apps"], apiVersions: ["v1"], operations: [CREATE, UPDATE, DELETE], resources: ["deployments/scale"]`:                     2,
		"kind: ValidatingAdmissionPolicy\n":                              2,
		"kind: ValidatingAdmissionPolicyBinding\n":                       3,
		"metadata: {name: fencepost-lease-shop.b.c}":                     1,
		"paramRef: {name: b.c, namespace: shop, ":                        1,
		"objectSelector: {matchLabels: {fencepost.dev/lease: shop.b.c}}": 1,
		"objectSelector: {matchLabels: {fencepost.dev/lease: shop.a}}":   1,
	} {
		require.Equal(t, times, strings.Count(done.out, text), text)
	}
	for args, text := range map[string]string{
		"--lease a":                                          "missing flags: --resource=RESOURCE",
		"--resource configmaps/v1":                           "missing flags: --lease=NAME",
		"--resource configmaps --lease a":                    `--resource: "configmaps" is not RESOURCE[/scale][.GROUP]/VERSION`,
		"--resource apps/deployments --lease a":              `--resource: "apps/deployments" is not`,
		"--resource d/status.apps/v1 --lease a":              `"d/status.apps/v1" is not`,
		"--resource configmaps/v1 --lease A/b":               `--lease: "A/b" is not the name of a Lease`,
		"--resource c/v1 --lease a --namespace b.c":          `--namespace: "b.c" is not the name of a namespace`,
		"--resource c/v1 --lease " + strings.Repeat("x", 56): "default." + strings.Repeat("x", 56) + " has 64 bytes, and Kubernetes allows 63",
		"--resource x --lease X --namespace -":               "--lease",
	} {
		requireFailed(t, execute(t, append([]string{"kubernetes", "policy"}, strings.Fields(args)...)...), 2, text)
	}
}

// Package kubernetes is the command fencepost kubernetes: it prints the policies by which an
// API server refuses stale writes to objects. policy.yaml has them.
package kubernetes

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"github.com/fencepost/fencepost/internal/cli"
)

// Cmd is the command fencepost kubernetes.
type Cmd struct {
	Policy policyCmd `cmd:"" help:"Print the admission policies that refuse stale writes to objects, as YAML."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return "No server is called.\n\nExamples:\n  fencepost kubernetes policy --resource configmaps --lease billing | kubectl apply -f -"
}

type policyCmd struct {
	Resource  []string `required:"" placeholder:"RESOURCE" help:"A resource whose objects can be guarded, with its group: configmaps, deployments.apps, or deployments/scale.apps to refuse every write of that subresource. Repeatable."`
	Lease     []string `required:"" placeholder:"NAME" help:"The Lease of a leader, as kubectl get leases shows it. Repeatable."`
	Namespace string   `default:"default" placeholder:"NAME" help:"The namespace of the Leases. Objects may be in any."`
}

// Help is printed by --help below the usage line.
func (policyCmd) Help() string {
	return `An object is guarded if it has the label fencepost.dev/lease=NAMESPACE.LEASE. The policies are those of the whole cluster: name all ` +
		`resources and all Leases each time. Kubernetes 1.30 or newer is needed, and the right to create validatingadmissionpolicies.

Examples:
  fencepost kubernetes policy --resource configmaps --resource deployments.apps --lease billing --namespace shop | kubectl apply -f -`
}

// rule is a resource of which writes are judged.
type rule struct {
	Group, Name string
	Parts       bool // its subresources that have its metadata too
}

//go:embed policy.yaml
var text string

var (
	policy   = template.Must(template.New("policy").Parse(text))
	resource = regexp.MustCompile(`^([a-z0-9-]+(?:/scale)?)(?:\.([a-z0-9.-]+))?$`)
	name     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// Run is called by kong.
func (c *policyCmd) Run(std cli.Streams) error {
	var wrong []error
	var rules []rule
	for _, r := range c.Resource {
		m := resource.FindStringSubmatch(r)
		if m == nil {
			wrong = append(wrong, fmt.Errorf("--resource: %q is not RESOURCE[/scale][.GROUP], as configmaps or deployments.apps", r))
			continue
		}
		rules = append(rules, rule{Group: m[2], Name: m[1], Parts: !strings.Contains(m[1], "/")})
	}
	if !name.MatchString(c.Namespace) || strings.Contains(c.Namespace, ".") {
		wrong = append(wrong, fmt.Errorf("--namespace: %q is not the name of a namespace", c.Namespace))
	}
	for _, l := range c.Lease {
		switch label := c.Namespace + "." + l; {
		case !name.MatchString(l):
			wrong = append(wrong, fmt.Errorf("--lease: %q is not the name of a Lease: kubectl get leases shows it", l))
		case len(label) > 63:
			wrong = append(wrong, fmt.Errorf("--lease: the label %s has %d bytes, and Kubernetes allows 63", label, len(label)))
		}
	}
	if wrong != nil {
		return errors.Join(wrong...)
	}
	var out strings.Builder
	if err := policy.Execute(&out, map[string]any{"Rules": rules, "Lease": c.Lease, "Namespace": c.Namespace}); err != nil {
		return err
	}
	return cli.Print(std.Out, out.String())
}

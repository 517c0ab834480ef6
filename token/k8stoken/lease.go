package k8stoken

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/register"
)

// The annotations of a Lease. Number is for operators and policies: the record has it too.
const (
	annotation         = "fencepost.dev/record"
	resourceAnnotation = "fencepost.dev/resource"
	numberAnnotation   = "fencepost.dev/number"
)

// lease has what is read and written of a Lease.
type lease struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Metadata   struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity       string `json:"holderIdentity"`
		LeaseDurationSeconds int64  `json:"leaseDurationSeconds"`
		AcquireTime          any    `json:"acquireTime"` // written as null, since a record has none
		RenewTime            string `json:"renewTime"`
	} `json:"spec"`
}

// encode returns the Lease of a record in JSON, as client-go's electors read it. An elector
// takes a changed renewTime for a sign of life, and looks at nothing else.
func encode(key, version string, r register.Record) []byte {
	record, _ := json.Marshal(r) // strings and integers: it does not fail
	l := lease{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	l.Metadata.Name, l.Metadata.ResourceVersion = name(key), version
	l.Metadata.Annotations = map[string]string{annotation: string(record), resourceAnnotation: key, numberAnnotation: strconv.FormatInt(r.Number, 10)}
	l.Spec.HolderIdentity = r.Holder
	l.Spec.LeaseDurationSeconds = min(max(1, (r.TTL+999)/1000), math.MaxInt32)
	l.Spec.RenewTime = time.UnixMicro(r.Beat).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	text, _ := json.Marshal(l)
	return text
}

// entry returns the record of a Lease. If an elector of client-go has written the spec, the
// annotation still has the last number and the queue, and the spec has the holder.
func (l *lease) entry(clock time.Time) (register.Entry, error) {
	e := register.Entry{Version: l.Metadata.ResourceVersion, Clock: clock}
	if text := l.Metadata.Annotations[annotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &e.Record); err != nil {
			return e, fmt.Errorf("k8stoken: the annotation %s of the Lease %s: %w", annotation, l.Metadata.Name, err)
		}
	}
	beat := int64(0)
	if at, err := time.Parse(time.RFC3339, l.Spec.RenewTime); err == nil {
		beat = at.UnixMicro()
	}
	if l.Spec.HolderIdentity != e.Holder || beat != e.Beat {
		e.Holder, e.TTL, e.Beat = l.Spec.HolderIdentity, 1000*l.Spec.LeaseDurationSeconds, beat
		e.At, e.Unconfirmed = 0, "" // the elector wrote its own machine's clock
	}
	return e, nil
}

var (
	legal   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	hashed  = regexp.MustCompile(`(^|\.)fencepost-[0-9a-f]{24}$`)
	illegal = regexp.MustCompile(`[^a-z0-9]+`)
)

// name returns the name of the Lease of a resource: its own if Kubernetes allows it, since
// an operator's elector may use that Lease. Names of different resources differ.
func name(key string) string {
	if legal.MatchString(key) && !hashed.MatchString(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	readable := strings.Trim(illegal.ReplaceAllString(strings.ToLower(key), "-"), "-")
	return strings.TrimPrefix(fmt.Sprintf("%s.fencepost-%x", readable, sum[:12]), ".")
}

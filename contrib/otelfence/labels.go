package otelfence

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// Keys of attributes. The first three are used in metrics.
const (
	outcomeKey  = attribute.Key("fencepost.outcome")
	reasonKey   = attribute.Key("fencepost.reason")
	kindKey     = attribute.Key("fencepost.kind")
	resourceKey = attribute.Key("fencepost.resource")
	numberKey   = attribute.Key("fencepost.number")
	holderKey   = attribute.Key("fencepost.holder")
	errorKey    = attribute.Key("error.message")
)

// labels are all attribute sets that the metrics of one kind can have. They are made
// once, so that a hook allocates nothing.
type labels struct {
	none                   []metric.AddOption
	confirmed, unconfirmed []metric.AddOption
	reasons                map[string][]metric.AddOption
	acquired, notAcquired  []metric.RecordOption
	released, lost         []metric.RecordOption
}

func newLabels(common ...attribute.KeyValue) *labels {
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, common...)...))
	}
	add := func(more ...attribute.KeyValue) []metric.AddOption { return []metric.AddOption{with(more...)} }
	record := func(outcome string) []metric.RecordOption {
		return []metric.RecordOption{with(outcomeKey.String(outcome))}
	}
	l := &labels{
		none:        add(),
		confirmed:   add(outcomeKey.String("confirmed")),
		unconfirmed: add(outcomeKey.String("unconfirmed")),
		reasons:     map[string][]metric.AddOption{},
		acquired:    record("acquired"),
		notAcquired: record("not_acquired"),
		released:    record("released"),
		lost:        record("lost"),
	}
	for _, reason := range []string{held, waitTimeout, cancelled, failed} {
		l.reasons[reason] = add(reasonKey.String(reason))
	}
	return l
}

// kinds has the labels of each kind of resource.
type kinds struct {
	wanted bool
	all    *labels // used if wanted is false
	mu     sync.RWMutex
	byKind map[string]*labels
}

func newKinds(wanted bool) *kinds {
	return &kinds{wanted: wanted, all: newLabels(), byKind: map[string]*labels{}}
}

func (k *kinds) of(resource string) *labels {
	if !k.wanted {
		return k.all
	}
	kind, _, found := strings.Cut(resource, "/")
	if !found {
		kind = "none"
	}
	k.mu.RLock()
	l := k.byKind[kind]
	k.mu.RUnlock()
	if l != nil {
		return l
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	kind = strings.Clone(kind) // the substring would keep the whole name in memory
	k.byKind[kind] = newLabels(kindKey.String(kind))
	return k.byKind[kind]
}

// Reasons of a failed acquisition.
const (
	held        = "held"
	waitTimeout = "wait_timeout"
	cancelled   = "cancelled"
	failed      = "error"
)

// reason returns why an acquisition failed. A wait that ended while the resource was held
// counts as wait_timeout or cancelled, and not as held. If the issuer could not be reached
// when WaitTimeout had passed, the issuer has failed.
func reason(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, lock.ErrWaitTimeout) && errors.Is(err, token.ErrHeld):
		return waitTimeout
	case ctx.Err() != nil:
		return cancelled
	case errors.Is(err, token.ErrHeld):
		return held
	}
	return failed
}

// refusals are the reasons of a guard, specific reasons first: a collision is stale too.
var refusals = []struct {
	name string
	err  error
}{
	{"collision", guard.ErrCollision},
	{"stale", guard.ErrStale},
	{"released", token.ErrReleased},
	{"missing", token.ErrMissing},
	{"signature", token.ErrBadSignature},
	{"invalid", token.ErrInvalid},
}

package otelfence

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Keys of attributes. The first three are those of metrics.
const (
	outcomeKey  = attribute.Key("fencepost.outcome")
	reasonKey   = attribute.Key("fencepost.reason")
	kindKey     = attribute.Key("fencepost.kind")
	resourceKey = attribute.Key("fencepost.resource")
	numberKey   = attribute.Key("fencepost.number")
	holderKey   = attribute.Key("fencepost.holder")
	errorKey    = attribute.Key("error.message")
)

// labels are all attributes that the metrics of one kind can have, made once: a
// hook allocates nothing for them.
type labels struct {
	none                   []metric.AddOption
	confirmed, unconfirmed []metric.AddOption
	reasons                map[string][]metric.AddOption
	acquired, gaveUp       []metric.RecordOption
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
		gaveUp:      record("gave_up"),
		released:    record("released"),
		lost:        record("lost"),
	}
	for _, reason := range []string{held, waitEnded, cancelled, failed} {
		l.reasons[reason] = add(reasonKey.String(reason))
	}
	return l
}

// kinds are the labels of each kind of resource.
type kinds struct {
	wanted bool
	all    *labels // where they are not wanted
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
	kind = strings.Clone(kind) // which would keep the whole name
	k.byKind[kind] = newLabels(kindKey.String(kind))
	return k.byKind[kind]
}

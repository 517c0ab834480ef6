package httptoken

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/token"
)

const (
	maxPage = 1_000
	// guardLimit is how long a guard may take to refuse a deposed holder. It first waits for
	// the holder's open transaction.
	guardLimit = 15 * time.Second
)

// state is the reply about a lock. Its holders are ids, which a break takes.
type state struct {
	Name      string   `json:"name"`
	Holder    string   `json:"holder"`
	Number    int64    `json:"number"`
	Remaining int64    `json:"remaining_ms"`
	Queue     []string `json:"queue"`
}

type page struct {
	Locks []state `json:"locks"`
	Next  string  `json:"next,omitempty"`
}

func newState(s token.State) state {
	return state{s.Resource, s.Holder, s.Number, s.Remaining.Milliseconds(), append([]string{}, s.Waiters...)}
}

func (c *call) inspect() (any, error) {
	iss, ok := c.Issuer.(token.Inspector)
	if !ok {
		return nil, unsupported
	}
	s, err := iss.Inspect(c.Context(), c.name)
	if err == nil && s.Number == 0 && s.Holder == "" && len(s.Waiters) == 0 {
		err = neverHeld
	}
	return newState(s), err
}

// list returns the locks in the order of their names.
func (c *call) list() (any, error) {
	query, err := url.ParseQuery(c.URL.RawQuery)
	limit, after := maxPage, query.Get("after")
	if text := query.Get("limit"); text != "" && err == nil {
		limit, err = strconv.Atoi(text)
	}
	wrong := err != nil || limit < 1 || limit > maxPage
	for name, values := range query {
		wrong = wrong || len(values) > 1 || !slices.Contains([]string{"prefix", "after", "limit"}, name)
	}
	if wrong {
		return nil, invalid.with(fmt.Sprintf("The query is malformed, limit is not 1 to %d, or a parameter is unknown or repeated.", maxPage))
	}
	iss, ok := c.Issuer.(token.Inspector)
	if !ok {
		return nil, unsupported
	}
	found := map[string]state{} // an issuer may return a lock twice
	for s, err := range iss.Locks(c.Context(), c.name) {
		if err != nil {
			return nil, err
		}
		if s.Resource > after {
			found[s.Resource] = newState(s)
		}
	}
	p, waiters := page{Locks: []state{}}, 0
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if n := len(p.Locks); n == limit || waiters > maxPage { // of queues that are long, fewer locks
			p.Next = p.Locks[n-1].Name
			break
		}
		p.Locks = append(p.Locks, found[name])
		waiters += len(found[name].Queue)
	}
	return p, nil
}

// depose breaks the lock of a holder.
func (c *call) depose() (any, error) {
	iss, ok := c.Issuer.(depose.Issuer)
	by := strings.TrimPrefix(c.client.name+"/break: ", "/") + c.reason
	b := depose.Break{Issuer: iss, Limit: guardLimit, Resource: c.name, Holder: c.holder, By: by, Above: c.number}
	_, tooLong := token.New(c.name, max(c.number, 1), by)
	switch {
	case !ok:
		return nil, unsupported
	case c.holder == "" || c.reason == "" || c.number < 0 || tooLong != nil:
		return nil, invalid.with("A break needs the holder, as GET returns it, and a short reason.")
	case !c.unfenced && len(c.Guards) == 0:
		return nil, unguarded
	case !c.unfenced:
		for _, name := range slices.Sorted(maps.Keys(c.Guards)) {
			b.Guards = append(b.Guards, depose.Guard{Name: name, Store: c.Guards[name]})
		}
	}
	number, done, now, err := b.Run(c.Context())
	switch {
	case err != nil && done != nil:
		return nil, fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	case err != nil:
		return nil, err
	case done == nil:
		return nil, &token.HeldError{Resource: c.name, Holder: now.Holder, Remaining: now.Remaining}
	}
	var report []string
	for _, row := range done[1:] { // the first is the number
		report = append(report, row[0]+": "+row[1])
	}
	return map[string]any{"number": number, "report": report}, nil
}

package httpguard

import (
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/fencepost/fencepost/internal/spent"
)

// call runs the handler under v.
func (h *handler) call(v *visit, r *http.Request) {
	switch {
	case len(v.sealed) == 0:
		h.next.ServeHTTP(v.w, r)
	case h.Unspent == nil || Safe(r.Method):
		h.next.ServeHTTP(v.w, v.request(r))
	default:
		h.callAndWatch(v, r)
	}
}

// callAndWatch tells of the tokens that nobody has asked for, if all went well.
func (h *handler) callAndWatch(v *visit, r *http.Request) {
	ctx, notes := spent.Track(v)
	r = v.request(r).WithContext(ctx)
	seen := httpsnoop.CaptureMetricsFn(v.w, func(w http.ResponseWriter) { h.next.ServeHTTP(w, r) })
	if seen.Code < 200 || seen.Code > 299 {
		return
	}
	for i := range v.places {
		if tok := v.places[i].sealed.Token; !notes.Has(tok.Resource) {
			h.Unspent(r, tok)
		}
	}
}

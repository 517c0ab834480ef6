package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// logger writes one line for each request that is refused or fails, and with
// --access-log for all others. A line never has a mark, a query or a body.
type logger struct {
	*slog.Logger
	access  bool
	metrics *metrics
}

func newLogger(out io.Writer, format string, access bool) *logger {
	var handler slog.Handler = slog.NewTextHandler(out, nil)
	if format == "json" {
		handler = slog.NewJSONHandler(out, nil)
	}
	// An error that httpguard logs for a request becomes part of that request's line.
	slog.SetDefault(slog.New(collector{handler}))
	return &logger{slog.New(handler), access, newMetrics()}
}

// standard is for packages that take a log.Logger.
func (l *logger) standard() *log.Logger {
	return slog.NewLogLogger(l.Handler(), slog.LevelWarn)
}

// requestEnd writes the line of a request that has ended.
func (l *logger) requestEnd(st *requestState, a *recorder) {
	level, text := slog.LevelInfo, "passed"
	switch {
	case a.status >= 500 && st.err != nil:
		level, text = slog.LevelError, "failed"
	case st.err != nil:
		level, text = slog.LevelWarn, "refused"
	case !a.complete:
		level, text = slog.LevelWarn, "cut off"
	case !l.access:
		return
	}
	attributes := append(st.attributes(st.err), slog.Int("status", a.status), slog.Duration("duration", time.Since(st.begun)))
	if st.err != nil {
		attributes = append(attributes, slog.Any("error", st.err))
	}
	l.LogAttrs(context.Background(), level, text, attributes...)
}

// reported logs, in report-only mode, a request that would have been refused.
func (l *logger) reported(ctx context.Context, err error) {
	l.metrics.reported.Add(1)
	attributes := append(stateOf(ctx).attributes(err), slog.Any("error", err))
	l.LogAttrs(ctx, slog.LevelWarn, "reported", attributes...)
}

// attributes are the request, its client, and the token that err is about.
func (st *requestState) attributes(err error) []slog.Attr {
	attributes := []slog.Attr{
		slog.String("method", st.method), slog.String("path", st.request.URL.EscapedPath()), slog.String("client", st.request.RemoteAddr),
	}
	resource, tok := st.about(err)
	if resource != "" {
		attributes = append(attributes, slog.String("resource", resource))
	}
	if tok.Number != 0 {
		attributes = append(attributes, slog.Int64("number", tok.Number), slog.String("holder", tok.Holder))
	}
	return attributes
}

// about returns the resource that err is about, or the request's first one, and
// the caller's token of it.
func (st *requestState) about(err error) (string, token.Token) {
	var resource string
	if len(st.resources) > 0 {
		resource = st.resources[0]
	}
	var stale *guard.StaleError
	var missing *token.MissingError
	switch {
	case errors.As(err, &stale):
		return stale.Token.Resource, stale.Token
	case errors.As(err, &missing):
		return missing.Resource, token.Token{}
	}
	toks, _ := httpguard.Parse(st.request.Header[httpguard.Header]) // a malformed field has none
	for _, tok := range toks {
		if tok.Resource == resource {
			return resource, tok
		}
	}
	return resource, token.Token{}
}

// collector records the errors that are logged of a request, for its line.
type collector struct{ slog.Handler }

func (g collector) Handle(ctx context.Context, record slog.Record) error {
	st := stateOf(ctx)
	if st == nil {
		return g.Handler.Handle(ctx, record)
	}
	record.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			st.err = err
		}
		return true
	})
	return nil
}

func (g collector) WithAttrs(attrs []slog.Attr) slog.Handler {
	return collector{g.Handler.WithAttrs(attrs)}
}
func (g collector) WithGroup(name string) slog.Handler { return collector{g.Handler.WithGroup(name)} }

package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the page
	"errors"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/marks"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
)

//go:embed page.html
var pageText string

var pageHTML = template.Must(template.New("page").Funcs(template.FuncMap{
	"label":   depose.Label,
	"hash":    func(holder string) string { return holder[len(depose.Label(holder)):] },
	"ago":     func(n int64) string { return marks.Span(time.Since(marks.Number(n).Time()).Round(time.Second)) },
	"date":    func(n int64) string { return marks.Number(n).Date() },
	"seconds": func(d time.Duration) string { return marks.Span(d.Round(time.Second)) },
}).Parse(pageText))

// shown is how many locks a page lists. A longer prefix finds the others.
const shown = 500

// view is what the page shows: one lock, or the locks whose names begin with Prefix.
type view struct {
	Nonce, Prefix string
	Status        int
	Error         string
	Locks         []token.State
	More          bool
	Lock          *token.State
	Marks         []markView
	Deposed       string // a holder, by this request
	Report        []string
}

type markView struct {
	Guard string
	guard.Mark
	IsOwn bool // of the lock's holder
	Err   error
}

// page serves the page. It is a client of the API: the password that a browser asks for is the
// bearer token, and has the same rights. A form of another site is refused.
func (s *service) page(api http.Handler) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, bearer, _ := r.BasicAuth()
		client := &httptoken.Issuer{URL: "http://service", Bearer: bearer, Client: &http.Client{Transport: inProcess{api}}, Operator: true}
		v := &view{Nonce: rand.Text(), Prefix: r.URL.Query().Get("prefix"), Status: http.StatusOK}
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		if name := r.URL.Query().Get("lock"); name == "" {
			v.fail(v.list(r.Context(), client))
		} else {
			if r.Method == http.MethodPost {
				v.fail(v.depose(r, client, name))
			}
			v.fail(s.showLock(r.Context(), client, name, v))
		}
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "+
			"style-src 'nonce-"+v.Nonce+"'; script-src 'nonce-"+v.Nonce+"'")
		if v.Status == http.StatusUnauthorized {
			header.Set("WWW-Authenticate", `Basic realm="Fencepost: the bearer token is the password", charset="UTF-8"`)
		}
		w.WriteHeader(v.Status)
		_ = pageHTML.Execute(w, v) // the client may have left
	}))
}

func (v *view) list(ctx context.Context, client *httptoken.Issuer) error {
	for state, err := range client.Locks(ctx, v.Prefix) {
		if err != nil {
			return err
		}
		if v.More = len(v.Locks) == shown; v.More {
			break
		}
		v.Locks = append(v.Locks, state)
	}
	return nil
}

func (v *view) depose(r *http.Request, client *httptoken.Issuer, name string) (err error) {
	holder := r.PostFormValue("holder")
	if _, v.Report, err = client.Break(r.Context(), name, holder, r.PostFormValue("reason"), 0, r.PostFormValue("unfenced") != ""); err == nil {
		v.Deposed = holder
	}
	return err
}

func (s *service) showLock(ctx context.Context, client *httptoken.Issuer, name string, v *view) error {
	state, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	v.Lock = &state
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, g := range s.guards {
		mark, err := g.Mark(ctx, name)
		if err != nil {
			slog.Error("a mark was not read", "guard", g.Name, "error", err)
		}
		own := state.Holder != "" && (mark.Holder == state.Holder || mark.Holder == depose.Label(state.Holder)) // which clients in Go send
		v.Marks = append(v.Marks, markView{g.Name, mark, own, err})
	}
	return nil
}

// fail shows why a request failed, unless err is nil or an earlier one has failed.
func (v *view) fail(err error) {
	var refused *httptoken.RefusalError
	var held *token.HeldError
	switch {
	case err == nil || v.Error != "":
	case errors.As(err, &refused):
		v.Status, v.Error = refused.Status, refused.Title+". "+refused.Detail
	case errors.As(err, &held):
		v.Status, v.Error = http.StatusConflict, "Another holder has the lock now. Nothing was changed."
	default:
		v.Status, v.Error = http.StatusInternalServerError, "The request failed: the service's log has the reason."
		slog.Error("the page failed", "error", err)
	}
}

// inProcess sends requests to a handler.
type inProcess struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &reply{header: http.Header{}, status: http.StatusOK}
	p.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.Buffer), Request: r}, nil
}

type reply struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (w *reply) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *reply) WriteHeader(status int) { w.status = status }

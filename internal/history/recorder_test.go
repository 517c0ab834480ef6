package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
)

func asked(kind history.Kind) history.Op {
	return history.Op{Kind: kind, Writer: "A", Resource: "account/42"}
}

func TestARecorderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r := history.NewRecorder()
	var report bytes.Buffer
	r.Report(&report)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 100 {
				o := r.Begin(asked(history.Unit))
				r.Now()
				r.History()
				o.End(history.Accepted, func(op *history.Op) { op.Holder = fmt.Sprint(i) })
			}
		})
	}
	writers.Wait()
	require.Len(t, r.History().Ops, 800)
	require.NoError(t, r.Err())
	require.Equal(t, 1601, strings.Count(report.String(), "\n"))
}

func TestARecorderHasOneClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := history.NewRecorder()
		require.Equal(t, time.Now(), r.Started())
		time.Sleep(time.Second)
		o := r.Begin(asked(history.Write))
		time.Sleep(time.Second)
		require.Equal(t, 2*time.Second, r.Now())
		o.End(history.Accepted, nil)
		want := asked(history.Write)
		want.Outcome, want.Began, want.Ended = history.Accepted, time.Second, 2*time.Second
		require.Equal(t, []history.Op{want}, r.History().Ops)
	})
}

func TestAnOpWithoutAnAnswerIsUnknownUntilNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := history.NewRecorder()
		o := r.Begin(asked(history.Unit))
		time.Sleep(time.Second)
		op := r.History().Ops[0]
		require.Equal(t, history.Unknown, op.Outcome)
		require.Equal(t, time.Second, op.Ended)
		time.Sleep(time.Second)
		o.End(history.Refused, func(op *history.Op) { op.Number, op.Holder = 7, "a" })
		o.End(history.Accepted, nil) // too late
		ops := r.History().Ops
		require.Len(t, ops, 1)
		require.Equal(t, history.Refused, ops[0].Outcome)
		require.Equal(t, 2*time.Second, ops[0].Ended)
		require.EqualValues(t, 7, ops[0].Number)
	})
}

func TestAHistoryIsInTheOrderOfBegan(t *testing.T) {
	t.Parallel()
	r := history.NewRecorder()
	for _, began := range []time.Duration{3, 1, 2} {
		op := asked(history.Read)
		op.Began, op.Ended = began, began
		r.Add(op)
	}
	h := r.History()
	h.Ops[0].Writer = "changed" // a copy
	for i, op := range r.History().Ops {
		require.EqualValues(t, i+1, op.Began)
		require.Equal(t, "A", op.Writer)
	}
}

func TestAnotherProcessIsMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent := history.NewRecorder()
		time.Sleep(time.Second)
		var report bytes.Buffer
		child := history.NewRecorder()
		child.Report(&report)
		time.Sleep(time.Second)
		child.Begin(asked(history.Acquire)).End(history.Accepted, func(op *history.Op) {
			op.Number, op.Holder, op.Until = 1, "a", op.Ended+time.Second
		})
		child.Begin(asked(history.Unit)) // killed before its answer
		report.WriteString(`{"id":9,"ki`)
		time.Sleep(time.Second)
		require.NoError(t, parent.Merge(&report))
		ops := parent.History().Ops
		require.Len(t, ops, 2)
		require.Equal(t, 2*time.Second, ops[0].Began)
		require.Equal(t, 2*time.Second, ops[0].Ended)
		require.Equal(t, 3*time.Second, ops[0].Until)
		require.Equal(t, history.Accepted, ops[0].Outcome)
		require.Equal(t, 2*time.Second, ops[1].Began)
		require.Equal(t, 3*time.Second, ops[1].Ended)
		require.Equal(t, history.Unknown, ops[1].Outcome)
		require.Zero(t, ops[1].Until)
	})
}

func TestAMergedHistoryIsReportedAgain(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	grandchild, child, parent := history.NewRecorder(), history.NewRecorder(), history.NewRecorder()
	grandchild.Report(&first)
	child.Report(&second)
	grandchild.Begin(asked(history.Write)).End(history.Accepted, nil)
	require.NoError(t, child.Merge(&first))
	require.NoError(t, parent.Merge(&second))
	require.Len(t, parent.History().Ops, 1)
}

func TestABadReportIsNotMerged(t *testing.T) {
	t.Parallel()
	started := `{"started":"2026-01-01T00:00:00Z"}` + "\n"
	good := `{"id":1,"kind":"read","writer":"A","resource":"r","outcome":"accepted","began":1,"ended":2}` + "\n"
	for name, text := range map[string]string{
		"no beginning":    good,
		"no id":           started + strings.Replace(good, `"id":1,`, ``, 1),
		"no such field":   started + strings.Replace(good, `"id"`, `"counter":1,"id"`, 1),
		"no such kind":    started + strings.Replace(good, `"read"`, `"reed"`, 1),
		"an end too soon": started + strings.Replace(good, `"ended":2`, `"ended":0`, 1),
		"not JSON":        started + "panic: no\n",
		"half a line":     started + `{"id":9,"ki` + "\n" + good,
		"an empty line":   started + "\n" + good,
		"two in one line": started + strings.TrimSpace(good) + good,
	} {
		r := history.NewRecorder()
		require.Error(t, r.Merge(strings.NewReader(text)), name)
		require.Empty(t, r.History().Ops, name)
	}
	r := history.NewRecorder()
	require.NoError(t, r.Merge(strings.NewReader(started+good)))
	require.Len(t, r.History().Ops, 1)
}

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	r := history.NewRecorder()
	r.Report(shut{})
	r.Add(asked(history.Read))
	require.ErrorIs(t, r.Err(), errShut)
	require.Len(t, r.History().Ops, 1)
}

var errShut = errors.New("shut")

type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, errShut }

func TestOpsSurviveAReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		child, parent := history.NewRecorder(), history.NewRecorder()
		var report bytes.Buffer
		child.Report(&report)
		for _, op := range crowd(2000).Ops {
			child.Add(op)
		}
		require.NoError(t, parent.Merge(&report))
		require.Equal(t, child.History(), parent.History())
	})
}

func TestABadLineIsNamed(t *testing.T) {
	t.Parallel()
	err := history.NewRecorder().Merge(strings.NewReader(`{"started":"2026-01-01T00:00:00Z"}` + "\n{}\n"))
	require.ErrorContains(t, err, "history: line 2: history: malformed ")
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"id":1,"kind":"read","writer":"A","resource":"r","outcome":"accepted","began":1,"ended":2,"counted":3}`))
	f.Add([]byte(`{"id":1,"open":true,"kind":"unit","writer":"A","resource":"r","outcome":"unknown","began":1,"ended":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var line history.Line
		if json.Unmarshal(text, &line) == nil && !line.Started.IsZero() || bytes.Contains(text, []byte("\n")) {
			return // it shifts the ops by any time
		}
		var report, again bytes.Buffer
		r := history.NewRecorder()
		r.Report(&report)
		report.Write(append(text, '\n'))
		merged := history.NewRecorder()
		r.Report(&again)
		if err := r.Merge(&report); err != nil {
			require.Empty(t, r.History().Ops)
			return
		}
		require.NoError(t, r.Err())
		_, err := history.Check(r.History())
		require.NoError(t, err)
		require.NoError(t, merged.Merge(&again))
		require.Len(t, merged.History().Ops, 1)
	})
}

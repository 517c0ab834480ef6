package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

func TestOpsSurviveJSON(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	ops := crowd(2000).Ops
	for i, op := range ops {
		require.NoError(t, e.Encode(history.Line{ID: uint64(i + 1), Open: i%2 == 0, Op: op}))
	}
	d := history.NewDecoder(&text)
	for i, op := range ops {
		line, err := d.Decode()
		require.NoError(t, err)
		require.Equal(t, history.Line{ID: uint64(i + 1), Open: i%2 == 0, Op: op}, line)
	}
	_, err := d.Decode()
	require.Equal(t, io.EOF, err)
}

func TestABadLineIsNamed(t *testing.T) {
	t.Parallel()
	d := history.NewDecoder(strings.NewReader(`{"kind":"read","writer":"A","resource":"r","outcome":"accepted"}` + "\n{}\n"))
	_, err := d.Decode()
	require.NoError(t, err)
	_, err = d.Decode()
	require.ErrorContains(t, err, "history: line 2: ")
	var malformed *history.OpError
	require.ErrorAs(t, err, &malformed)
}

func TestALineThatIsCutOffIsNotTheEnd(t *testing.T) {
	t.Parallel()
	_, err := history.NewDecoder(strings.NewReader(`{"kind":"read"`)).Decode()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"started":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"id":1,"kind":"read","writer":"A","resource":"r","outcome":"accepted","began":1,"ended":2,"counted":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		line, err := history.NewDecoder(bytes.NewReader(append(text, '\n'))).Decode()
		if err != nil {
			return
		}
		if line.Started.IsZero() {
			require.NoError(t, line.Check())
		}
		var again bytes.Buffer
		require.NoError(t, json.NewEncoder(&again).Encode(line))
		same, err := history.NewDecoder(&again).Decode()
		require.NoError(t, err)
		require.True(t, line.Started.Equal(same.Started))
		same.Started = line.Started
		require.Equal(t, line, same)
	})
}

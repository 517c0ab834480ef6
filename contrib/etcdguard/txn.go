package etcdguard

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/token"
)

// Txn is clientv3's Txn (https://etcd.io/docs/latest/learning/api/#transaction) under the
// token of resource in ctx. If, Then and Else add to what they were given before. Commit
// sends one request: if the token is admitted, etcd evaluates the compares of If and
// performs the operations of Then or Else, in the step that raises the mark.
//
// Commit returns the response to these compares and operations. Its Succeeded tells whether
// the compares held. A token is refused by an error, never by Succeeded. The mark is raised
// in both cases.
//
// If the error is nil the transaction was applied. If it is [guard.ErrUnknown], it may have
// been applied: acquire and claim again, then read. Any other error, including a refusal,
// means that nothing was applied. If ctx has no token of resource, Commit returns the error
// of [token.FromContext], and sends nothing.
//
// If ctx ends before the request was sent, Commit returns the cause, and the request is
// never sent. If ctx ends later, Commit returns ErrUnknown and the cause. If the lease is
// lost, a request in progress may take 30 s more.
//
// Commit returns an error, and sends nothing, if an operation puts or deletes a mark, alone
// or in a range. The Guard uses two of the operations that etcd allows in a transaction
// (--max-txn-ops, 128 by default).
func (g *Guard) Txn(ctx context.Context, resource string) clientv3.Txn {
	return &txn{Guard: g, verb: "txn", resource: resource, ctx: ctx}
}

// txn is one guarded transaction.
type txn struct {
	*Guard
	verb, resource string
	ctx            context.Context
	tok            token.Token // zero if reportOnly and ctx has none
	reportOnly     bool
	compares       []clientv3.Cmp
	then, els      []clientv3.Op
	work           []clientv3.Op // the caller's part, or nil for a claim
}

func (t *txn) If(cs ...clientv3.Cmp) clientv3.Txn { t.compares = append(t.compares, cs...); return t }

func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn { t.then = append(t.then, ops...); return t }

func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn { t.els = append(t.els, ops...); return t }

func (t *txn) Commit() (resp *clientv3.TxnResponse, err error) {
	t.work = []clientv3.Op{clientv3.OpTxn(t.compares, t.then, t.els)}
	t.reportOnly = t.DangerouslyReportOnly || failpoint.IsUnguarded(t.ctx)
	if err := t.checkKeys(t.work); err != nil {
		return nil, t.failed(err)
	}
	if t.tok, err = token.FromContext(t.ctx, t.resource); err != nil {
		t.tok = token.Token{}
		err = t.Hooks.Outcome(t.ctx, err, t.DangerouslyReportOnly)
	}
	if err == nil {
		resp, err = t.do()
		err = t.Hooks.Outcome(t.ctx, err, false)
	}
	return resp, guard.WithCause(t.ctx, err)
}

// checkKeys returns an error if an operation writes a mark.
func (g *Guard) checkKeys(ops []clientv3.Op) error {
	marks := g.prefix()
	for _, op := range ops {
		_, then, els := op.Txn() // nothing, if op is no transaction
		if err := g.checkKeys(append(then[:len(then):len(then)], els...)); err != nil {
			return err
		}
		key, end := string(op.KeyBytes()), string(op.RangeBytes())
		covers := end == "\x00" || end > marks // "\x00" is no end
		if !op.IsGet() && (strings.HasPrefix(key, marks) || end != "" && key < marks && covers) {
			return fmt.Errorf("an operation on %q would write marks, whose keys begin with %q", key, marks)
		}
	}
	return nil
}

func (t *txn) do() (resp *clientv3.TxnResponse, err error) {
	if err := t.check(); err != nil {
		return nil, t.failed(err)
	}
	failpoint.At(t.ctx, failpoint.Begin, t)
	if failpoint.DropsCommit(t.ctx, t) {
		err = t.unknown(failpoint.ErrLost)
	} else if resp, err = t.send(); err == nil {
		resp, err = t.read(resp)
	}
	last := failpoint.LastStep(err, guard.ErrUnknown)
	if t.work == nil { // a claim writes nothing of the caller's
		last = failpoint.Undone
	} else if err == nil && failpoint.DropsReply(t.ctx, t) {
		resp, err, last = nil, t.unknown(failpoint.ErrLost), failpoint.Unknown
	}
	failpoint.At(t.ctx, last, t)
	return resp, err
}

// request returns the parts of the transaction that is sent:
//
//	If   the mark is the token's number or above, and is not the token
//	Then get the mark: a refusal
//	Else put the mark, unless it is the token; and the caller's transaction
//
// Both compares fail if there is no mark. etcd evaluates all compares, also the nested
// ones, before the first operation. It compares values byte by byte: the number of a mark
// has leading zeros, and a mark sorts behind its number alone, because its holder follows.
func (t *txn) request() (newer []clientv3.Cmp, refuse, admit []clientv3.Op) {
	mark, number := t.prefix()+t.resource, fmt.Sprintf("%015d", t.tok.Number)
	text := number + " " + t.tok.Holder
	is := func(result, text string) clientv3.Cmp { return clientv3.Compare(clientv3.Value(mark), result, text) }
	if t.tok != (token.Token{}) { // without a token nothing is compared, and Then applies
		newer = []clientv3.Cmp{is(">", number), is("!=", text)}
	}
	refuse = []clientv3.Op{clientv3.OpGet(mark)}
	if t.reportOnly {
		refuse = append(refuse, t.work...)
	}
	raise := clientv3.OpTxn([]clientv3.Cmp{is("=", text)}, nil, []clientv3.Op{clientv3.OpPut(mark, text)})
	return newer, refuse, append([]clientv3.Op{raise}, t.work...)
}

// read returns the outcome that the response describes.
func (t *txn) read(resp *clientv3.TxnResponse) (*clientv3.TxnResponse, error) {
	if resp.Succeeded && t.tok != (token.Token{}) {
		mark, err := parse(resp.Responses[0].GetResponseRange())
		refusal := &guard.StaleError{Token: t.tok, Mark: mark}
		switch {
		case t.reportOnly: // the write was made anyway
			_ = t.Hooks.Outcome(t.ctx, refusal, true)
		case err != nil:
			return nil, t.failed(err)
		default:
			return nil, refusal
		}
	}
	if t.work == nil {
		return nil, nil
	}
	work := resp.Responses[len(resp.Responses)-1].GetResponseTxn()
	work.Header = resp.Header // a nested transaction has none
	return (*clientv3.TxnResponse)(work), nil
}

// parse returns the mark in the response to a Get of its key.
func parse(found *pb.RangeResponse) (guard.Mark, error) {
	kv := found.Kvs[0]
	digits, holder, _ := strings.Cut(string(kv.Value), " ")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) != 15 || holder == "" {
		return guard.Mark{}, fmt.Errorf("key %q holds no mark", kv.Key)
	}
	return guard.Mark{Number: number, Holder: holder}, nil
}

// failed returns the error of a call that applied nothing.
func (t *txn) failed(err error) error {
	return fmt.Errorf("etcdguard: %s %s: %w", t.verb, t.resource, err)
}

func (t *txn) unknown(err error) error {
	return t.failed(fmt.Errorf("%w: %w", guard.ErrUnknown, err))
}

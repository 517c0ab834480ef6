package etcdguard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/internal/writectx"
)

// send sends the transaction once, and decides what an error says about its outcome.
func (t *txn) send() (*clientv3.TxnResponse, error) {
	inner, end := writectx.New(t.ctx)
	defer end()
	once := &gate{KVClient: clientv3.RetryKVClient(t.Client), caller: t.ctx}
	newer, refuse, admit := t.request()
	resp, err := clientv3.NewKVFromKVClient(once, t.Client).Txn(inner).If(newer...).Then(refuse...).Else(admit...).Commit()
	switch {
	case err == nil:
		return resp, nil
	case !once.sent && writectx.CheckSend(t.ctx) != nil:
		return nil, t.failed(fmt.Errorf("nothing was sent: %w", writectx.CheckSend(t.ctx)))
	case !once.sent, appliedNothing(once.err):
		return nil, t.failed(err)
	case context.Cause(inner) != nil:
		err = context.Cause(inner)
	case status.Code(once.err) == codes.DeadlineExceeded: // arrives before inner has ended
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, once.err)
	case once.err != nil:
		err = once.err
	}
	if t.work == nil { // a raised mark is no write
		return nil, t.failed(err)
	}
	return nil, t.unknown(err)
}

// gate is a KVClient whose Txn reaches the server once. clientv3 sends a transaction with
// writes again if an attempt ends with Canceled or DeadlineExceeded before its context
// does, for example because a proxy reset the stream:
//
//  1. The proxy forwards the request, and etcd applies it.
//  2. The proxy ends the stream with CANCEL.
//  3. clientv3 sends it again, and etcd applies it twice, or refuses it because of a newer
//     token, as if nothing had been applied.
//
// gRPC queries the credentials of a call each time that it opens a stream for it, after it
// has chosen a connection and before anything is sent. So the gate is credentials, without
// any data, and an error of theirs prevents a stream:
//
//   - after the caller's context has ended;
//   - after an attempt that may have been applied.
//
// What gRPC itself sends again passes: before [gate.finished], it does so only if the server
// has not processed the stream (RFC 9113, sections 6.8 and 8.7).
type gate struct {
	pb.KVClient
	caller context.Context
	sent   bool  // a stream was opened
	err    error // the end of the last attempt for which one was
}

func (g *gate) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return g.KVClient.Txn(ctx, in, append(opts[:len(opts):len(opts)], grpc.PerRPCCredentials(g), grpc.OnFinish(g.finished))...)
}

// GetRequestMetadata returns no data, or an error if no stream may be opened.
func (g *gate) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if g.err != nil && !appliedNothing(g.err) {
		return nil, errors.New("not sent again")
	}
	if err := writectx.CheckSend(g.caller); err != nil {
		return nil, err
	}
	g.sent, g.err = true, nil
	return nil, nil
}

// RequireTransportSecurity returns false: there is no data to protect.
func (g *gate) RequireTransportSecurity() bool { return false }

func (g *gate) finished(err error) {
	if g.sent && (g.err == nil || appliedNothing(g.err)) {
		g.err = err
	}
}

// appliedNothing reports whether err is an answer of etcd that it gives before it applies
// anything, such as a permission that is denied. It is false for "database space exceeded":
// a server whose quota is reached between its check and the application applies the
// transaction and returns that error.
func appliedNothing(err error) bool {
	var said rpctypes.EtcdError
	return errors.As(rpctypes.Error(err), &said) && slices.Contains([]codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied, codes.Unauthenticated,
	}, said.Code())
}

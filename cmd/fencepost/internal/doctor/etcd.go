package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
)

// Etcd is a cluster to be examined, by the URLs that a program has of it.
type Etcd struct {
	*connect.Etcd
	answering []string // those of Endpoints whose members have a leader
}

type object = map[string]any

const (
	etcdStatus = "/v3/maintenance/status"
	etcdHidden = "etcdctl endpoint status, and member list, as a user with that right" // the fix without it
)

// Examine makes all checks. It changes no key.
func (s Etcd) Examine(ctx context.Context) (*Report, error) {
	defer s.Client.CloseIdleConnections()
	report := &Report{Server: "etcd at " + strings.Join(s.Endpoints, ", ")}
	return report.examine(ctx, etcdHidden, []check{
		{"members", "", "Grants and renewals need a majority of the members, without an alarm: of three, one may fail. A program asks those whose URLs it has.", s.members},
		{"rights", "", "Grants, renewals and releases are transactions that read and write a key.", s.rights},
		{"clock", "L18, L20", "If the keys are lost, numbers continue from the clock. A caller that does not wait judges by it whether a holder is dead.", s.clock},
	})
}

func (s *Etcd) members(ctx context.Context) (answer, error) {
	voters, clusters, seen, silent := 0, map[string]bool{}, []string{}, []error{}
	for _, url := range s.Endpoints {
		var status struct {
			Header  struct{ Cluster_ID string } //nolint:revive // etcd's name
			Version string
			Errors  []string // alarms
		}
		_, err := s.Send(ctx, url, etcdStatus, object{}, &status)
		text := strings.Join(append(status.Errors, status.Version), ", ")
		if err == nil {
			s.answering, clusters[status.Header.Cluster_ID] = append(s.answering, url), true
		} else if text = err.Error(); !isServerError(err) {
			silent = append(silent, err)
		}
		seen = append(seen, url+": "+text)
	}
	if len(silent) == len(s.Endpoints) {
		return answer{}, errors.Join(silent...)
	}
	var list struct{ Members []struct{ IsLearner bool } }
	err := s.SendAny(ctx, "/v3/cluster/member/list", object{}, &list)
	for _, m := range list.Members {
		if !m.IsLearner {
			voters++
		}
	}
	all := strings.Join(seen, "; ")
	has := func(text string) bool { return strings.Contains(all, text) }
	return judge(fmt.Sprintf("%d have a vote; %s", voters, all),
		rule{has(": 404 "), Fail, "", "open the gateway of each member: --enable-grpc-gateway"},
		rule{len(clusters) > 1, Fail, ": these are several clusters, and each grants every lock", "give all programs the URLs of one cluster"},
		rule{has("no leader"), Fail, "", "start a majority of the members, and connect them"},
		rule{has("NOSPACE"), Fail, "", "etcdctl compact, etcdctl defrag, and a larger --quota-backend-bytes; then etcdctl alarm disarm"},
		rule{has("CORRUPT"), Fail, "", "replace the member whose data differs; then etcdctl alarm disarm"},
		rule{err != nil || len(s.answering)+len(silent) < len(s.Endpoints), Unknown, ": this user may not ask for all of it", etcdHidden},
		rule{len(silent) > 0, Warn, ": the next loss may end the majority", "start the member, or take its URL from the programs"},
		rule{voters < 3, Warn, ": none of them may fail", "etcdctl member add …, until there are three"},
		rule{len(s.Endpoints) < voters, Warn, ": a program with these URLs asks no other member", "give all programs the URLs of all members"})
}

// rights sends a transaction whose condition is never true. etcd compares the user's rights with
// both of its branches.
func (s *Etcd) rights(ctx context.Context) (answer, error) {
	key, end := []byte(s.Prefix+"doctor"), []byte(strings.TrimSuffix(s.Prefix, "/")+"0")
	err := s.SendAny(ctx, "/v3/kv/txn", object{
		"compare": []object{{"key": key, "target": "VERSION", "result": "LESS", "version": "0"}},
		"success": []object{{"request_put": object{"key": key}}},
		"failure": []object{{"request_range": object{"key": []byte(s.Prefix), "range_end": end, "limit": 1}}},
	}, &struct{}{})
	if err == nil {
		return answer{Pass, "this user may read and write " + s.Prefix, ""}, nil
	}
	const grant = "etcdctl role grant-permission … --prefix=true readwrite "
	return judge(err.Error(), rule{strings.Contains(err.Error(), "user name is empty"), Fail, "", "give the first URL a user and a password, and run " + grant + s.Prefix},
		rule{strings.Contains(err.Error(), "permission denied"), Fail, "", grant + s.Prefix}, rule{true, Fail, "", "see the check of the members"})
}

// clock reads the clock of each member that answers: the header Date has its second.
func (s *Etcd) clock(ctx context.Context) (saw answer, err error) {
	err = fmt.Errorf("%w clock", errMissing)
	for _, url := range s.answering {
		saw, err = clock(ctx, time.Second, func(ctx context.Context) (time.Time, error) {
			return s.Send(ctx, url, etcdStatus, object{}, &struct{}{})
		})
		if saw.evidence = url + " is " + saw.evidence; err != nil || saw.verdict != Pass {
			break
		}
	}
	return saw, err
}

package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// Main is the TestMain of a package that needs an API server, which it may share
// with other packages. It installs the CRDs of this repository, simulates the
// Deployment controller and the kubelets, runs the tests and stops everything. root
// is the path to the root of the repository; set receives the environment.
func Main(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env)) {
	runTests(m, root, addToScheme, set, StartShared, true, os.Stderr)
}

// MainWithOwnServer is Main for tests that change settings which affect all objects
// of an API server, such as webhooks and permissions. crds are folders of further
// CRDs.
func MainWithOwnServer(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env), crds ...string) {
	start := func(s *runtime.Scheme, folders ...string) (*Env, error) { return Start(s, append(folders, crds...)...) }
	runTests(m, root, addToScheme, set, start, true, os.Stderr)
}

// MainWithoutNodes is MainWithOwnServer for tests that simulate the Deployment
// controller and the kubelets themselves. logs receives the logs of the operators if
// the tests are verbose.
func MainWithoutNodes(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env), logs io.Writer) {
	runTests(m, root, addToScheme, set, Start, false, logs)
}

type startFunc func(*runtime.Scheme, ...string) (*Env, error)

func runTests(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env), start startFunc, nodes bool, logs io.Writer) {
	flag.Parse()
	if !testing.Verbose() {
		logs = io.Discard
	}
	log.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(logs)))
	code, err := runMain(m, root, addToScheme, set, start, nodes)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runMain(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env), start startFunc, nodes bool) (code int, err error) {
	scheme := runtime.NewScheme()
	if err := addToScheme(scheme); err != nil {
		return 1, fmt.Errorf("making the scheme: %w", err)
	}
	env, err := start(scheme, filepath.Join(root, "config", "crd", "bases"))
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopped := env.Stop(); err == nil {
			err = stopped
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	var played errgroup.Group
	if nodes {
		played.Go(func() error { return env.Rollouts(ctx) })
		played.Go(func() error { return env.Kubelet(ctx) })
	}
	set(env)
	code = m.Run()
	err = env.Audit.Refused(ctx)
	cancel()
	return code, errors.Join(err, played.Wait())
}

// NewNamespace creates a namespace with a unique name.
func (e *Env) NewNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// Sandbox is a namespace with an operator that watches only this namespace, and records
// the requests of that operator there.
type Sandbox struct {
	*testing.T
	*Env
	Namespace string

	subject Subject
	op      *Operator
	seen    int // requests
	events  int
}

// NewSandbox creates a namespace. Start starts the operator.
func (e *Env) NewSandbox(t *testing.T, s Subject) *Sandbox {
	t.Helper()
	l := &Sandbox{T: t, Env: e, Namespace: e.NewNamespace(t), subject: s}
	if len(s.Messages) > 0 {
		t.Cleanup(l.checkMessages)
	}
	return l
}

// checkMessages fails the test for each message that the operator wrote into a
// status and that docs/conditions.md does not contain.
func (l *Sandbox) checkMessages() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // that of the test is done
	defer cancel()
	rs, err := l.Audit.Requests(ctx, l.Namespace)
	if err != nil {
		l.Errorf("reading the messages: %v", err)
	}
	for _, r := range rs {
		if !strings.HasSuffix(r.Resource, "/status") || !r.IsWrite() || !r.Succeeded() {
			continue
		}
		var o struct {
			Status struct {
				Conditions  []metav1.Condition `json:"conditions"`
				LastActions []common.Action    `json:"lastActions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(r.Body, &o); err != nil {
			l.Errorf("reading %s: %v", r, err)
		}
		if err := messages.CheckStatus(l.subject.Messages, o.Status.Conditions, o.Status.LastActions); err != nil {
			l.Errorf("%s: %v", r, err)
		}
	}
}

// Start starts an operator, which is stopped when the test ends at the latest.
func (l *Sandbox) Start() *Sandbox {
	l.Helper()
	op, err := l.Env.Run(l.Context(), l.subject, nil, l.Namespace)
	if err != nil {
		l.Fatal(err)
	}
	l.op = op
	l.Cleanup(op.Cancel)
	return l
}

// Restart stops the operator and starts another one, with empty caches.
func (l *Sandbox) Restart() {
	l.Helper()
	l.Stop()
	l.Start()
}

// Stop stops the operator.
func (l *Sandbox) Stop() {
	l.Helper()
	if err := l.op.Stop(); err != nil {
		l.Fatal(err)
	}
}

// Requests returns the requests of the operator since the last call, once it has
// sent none for a second. Later ones are returned by the next call.
func (l *Sandbox) Requests() []Request {
	l.Helper()
	rs, err := l.Audit.Quiet(l.Context(), l.Namespace, time.Second)
	if err != nil {
		l.Fatal(err)
	}
	since := rs[l.seen:]
	l.seen = len(rs)
	return since
}

// Expect fails unless exactly these requests were sent since the last call, in any
// order: "patch deployments 200". It waits for them, because the operator may begin
// late on a busy machine.
func (l *Sandbox) Expect(what string, want ...string) {
	l.Helper()
	l.ExpectOf(0, "", what, want...)
}

// ExpectNone fails if requests were sent since the last call, other than some that
// depend on timing.
func (l *Sandbox) ExpectNone(what string, except ...string) {
	l.Helper()
	got := summaries(l.Requests())
	for _, r := range except {
		if i := slices.Index(got, r); i >= 0 {
			got = slices.Delete(got, i, i+1)
		}
	}
	if len(got) > 0 {
		l.Errorf("%s: got requests %q, want none except %q", what, got, except)
	}
}

// ExpectEvents fails if more requests for events than that were sent since the last
// call. Call it after the other requests were awaited.
func (l *Sandbox) ExpectEvents(what string, limit int) {
	l.Helper()
	all := l.Audit.Events(l.Namespace)
	if n := all - l.events; n > limit {
		l.Errorf("%s: got %d requests for events, want at most %d", what, n, limit)
	}
	l.events = all
}

// settle is how long counts in the status may be postponed, so that several changes
// cost one write (docs/decisions/0002-status-writes.md).
const settle = 5 * time.Second

// fence is how long a reconcile may last, and still write (maxAge of package apply).
const fence = 5 * time.Second

// startup is how long the start of a rollout may remain unwritten
// (docs/decisions/0002-status-writes.md).
const startup = time.Second

// Settle waits until the operator has sent no request for longer than counts in the
// status may be postponed. An operator that starts earlier writes them.
func (l *Sandbox) Settle() {
	l.Helper()
	if _, err := l.Audit.Quiet(l.Context(), l.Namespace, settle+time.Second); err != nil {
		l.Fatal(err)
	}
}

// ExpectOf is Expect for a rollout that took that long, from the change to readiness.
// If that is longer than its start may remain unwritten, as it may be on a busy machine, and
// each time it exceeds the delay of counts in the status, one additional write of the
// status is allowed. Each time it exceeds how long a reconcile may last, one write that
// changed nothing is allowed.
func (l *Sandbox) ExpectOf(took time.Duration, status, what string, want ...string) {
	l.Helper()
	l.await(want)
	requests := l.Requests()
	kept := withoutRepeats(requests, int(took/fence))
	if n := len(requests) - len(kept); n > 0 {
		l.Logf("%s took %s, and %d writes were repeated", what, took.Round(time.Second), n)
	}
	got := l.withoutLostRaces(summaries(kept))
	want = append([]string{}, want...) // never nil, like got
	more := took / settle
	if took >= startup {
		more++
	}
	for range more {
		if count(got, status) <= count(want, status) {
			break
		}
		l.Logf("%s took %s, and one write of the status more", what, took.Round(time.Second))
		want = append(want, status)
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		l.Errorf("%s: requests (-want +got):\n%s", what, d)
		for _, r := range requests {
			l.Logf("%s %.500s", r, r.Body)
		}
	}
}

// await waits until the operator has sent these requests since the last call of
// Requests. It does not fail the test if they are missing: the caller compares them.
func (l *Sandbox) await(want []string) {
	l.Helper()
	err := Eventually(l.Context(), "the expected requests", func(ctx context.Context) (bool, error) {
		rs, err := l.Audit.Requests(ctx, l.Namespace)
		if err != nil {
			return false, err
		}
		got := summaries(rs[l.seen:])
		for _, w := range want {
			if count(got, w) < count(want, w) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		l.Log(err)
	}
}

// summaries returns the requests as Expect describes them.
func summaries(rs []Request) []string {
	all := []string{}
	for _, r := range rs {
		all = append(all, fmt.Sprintf("%s %s %d", r.Verb, r.Resource, r.Code))
	}
	return all
}

// withoutRepeats removes writes that changed nothing, limit of them at most: the next
// write of the same object had the same resource version as a precondition, and
// succeeded. A reconcile that lasts too long ends between two requests for a child, and
// the next one begins with the first of them again.
func withoutRepeats(requests []Request, limit int) []Request {
	kept := slices.Clone(requests)
	for i := len(kept) - 1; i >= 0 && limit > 0; i-- {
		r := kept[i]
		next := slices.IndexFunc(kept[i+1:], func(o Request) bool {
			return o.IsWrite() && o.Resource == r.Resource && o.Name == r.Name
		})
		if next < 0 || !r.IsWrite() || !r.Succeeded() {
			continue
		}
		if after := kept[i+1+next]; after.Succeeded() && r.version() != "" && after.version() == r.version() {
			kept = slices.Delete(kept, i, i+1)
			limit--
		}
	}
	return kept
}

// withoutLostRaces removes the writes of children that the API server rejected
// because a controller of Kubernetes had just written a status, and the read that
// follows each of them. Whether that happens depends on timing, so a budget allows
// two per resource (docs/decisions/0020).
func (l *Sandbox) withoutLostRaces(requests []string) []string {
	kept, refused, unread := []string{}, map[string]int{}, map[string]int{}
	for _, r := range requests {
		write, lost := strings.CutSuffix(r, " 409")
		written := strings.TrimPrefix(write, "patch ")
		read := strings.TrimSuffix(strings.TrimPrefix(r, "get "), " 200")
		switch {
		case lost && !strings.Contains(written, "/") && refused[written] < 2:
			refused[written]++
			unread[written]++
			l.Logf("%s: the write lost a race", r)
		case unread[read] > 0:
			unread[read]--
		default:
			kept = append(kept, r)
		}
	}
	return kept
}

func count(all []string, what string) int {
	n := 0
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// Create creates an object as the admin.
func (l *Sandbox) Create(obj client.Object) {
	l.Helper()
	if err := l.Admin.Create(l.Context(), obj); err != nil {
		l.Fatal(err)
	}
}

// Get reads an object in the namespace of the lab.
func (l *Sandbox) Get(obj client.Object, name string) {
	l.Helper()
	if err := l.Admin.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: name}, obj); err != nil {
		l.Fatal(err)
	}
}

// Edit changes an object as a user with kubectl would.
func (l *Sandbox) Edit(obj client.Object, name string, change func()) {
	l.Helper()
	l.Get(obj, name)
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := l.Admin.Patch(l.Context(), obj, client.MergeFrom(before), client.FieldOwner("kubectl-edit")); err != nil {
		l.Fatal(err)
	}
}

// Eventually waits until ok returns true, and fails the test if that takes too
// long.
func (l *Sandbox) Eventually(what string, ok func(context.Context) (bool, error)) {
	l.Helper()
	if err := Eventually(l.Context(), what, ok); err != nil {
		l.Fatal(err)
	}
}

// Until reads an object repeatedly until ok returns true.
func (l *Sandbox) Until(what string, obj client.Object, name string, ok func() bool) {
	l.Helper()
	l.Eventually(what, func(ctx context.Context) (bool, error) {
		if err := l.Admin.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: name}, obj); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if ok() {
			return true, nil
		}
		if o, is := obj.(converge.Object); is {
			return false, fmt.Errorf("generation %d, status %+v", o.GetGeneration(), *o.GetStatus())
		}
		return false, nil
	})
}

// Ready waits until an object is Ready in its current generation.
func (l *Sandbox) Ready(obj converge.Object, name string) {
	l.Helper()
	l.Until(name+" to be Ready", obj, name, func() bool {
		st := obj.GetStatus()
		return st.ObservedGeneration == obj.GetGeneration() && meta.IsStatusConditionTrue(st.Conditions, common.ConditionReady)
	})
}

// Stalled waits until an object is Stalled for a reason, and returns the message.
func (l *Sandbox) Stalled(obj converge.Object, name, reason string) string {
	l.Helper()
	var message string
	l.Until(name+" to be Stalled for "+reason, obj, name, func() bool {
		c := meta.FindStatusCondition(obj.GetStatus().Conditions, common.ConditionStalled)
		if c == nil || c.Reason != reason {
			return false
		}
		message = c.Message
		return true
	})
	return message
}

// Gone waits until an object does not exist any more.
func (l *Sandbox) Gone(obj client.Object, name string) {
	l.Helper()
	l.Eventually(fmt.Sprintf("%T %s to be gone", obj, name), func(ctx context.Context) (bool, error) {
		err := l.Admin.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: name}, obj)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

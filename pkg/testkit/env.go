// Package testkit is what tests of kinds stand on: a real API server with an
// audit log that counts requests, the operator's manager in the same process,
// and campaigns that crash it at every write. It knows no kind.
//
// The API server comes from KUBEBUILDER_ASSETS, which `make test-envtest`
// sets. Garbage collection and the namespace controller run for real; pods do
// not, so Rollouts plays the Deployment controller.
package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// OperatorUser is whom the operator is in the audit log.
const OperatorUser = "platform-operator"

// Env is a running API server.
type Env struct {
	// Admin may do everything; its requests are not counted.
	Admin client.WithWatch
	// AdminConfig is Admin's configuration.
	AdminConfig *rest.Config
	// Operator is the operator's configuration: a user of its own.
	Operator *rest.Config
	// Scheme knows the types of the test.
	Scheme *runtime.Scheme
	// Audit reads the audit log.
	Audit *Audit

	env *envtest.Environment
	kcm *exec.Cmd
	dir string
}

// auditPolicy logs the body of what the operator writes, and of all else only
// that it happened. Leases and events are not worth a line.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  resources: [{group: coordination.k8s.io}, {group: events.k8s.io}, {group: "", resources: [events]}]
- level: None
  verbs: [watch]
- level: Request
  users: [` + OperatorUser + `]
- level: Metadata
  users: [` + markerUser + `]
- level: None
`

// Start starts an API server with the definitions in the given folders. The
// caller stops it.
func Start(scheme *runtime.Scheme, crds ...string) (*Env, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set: run the tests by `make test-envtest`, or set it to what `bin/cluster assets` prints")
	}
	dir, err := os.MkdirTemp("", "testkit-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	e := &Env{Scheme: scheme, dir: dir}
	if err := e.start(crds); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

func (e *Env) start(crds []string) error {
	policy, log := filepath.Join(e.dir, "policy.yaml"), filepath.Join(e.dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	e.env = &envtest.Environment{
		CRDDirectoryPaths: crds, ErrorIfCRDPathMissing: true, Scheme: e.Scheme,
		// The default, 20 s, is not enough where something else keeps the machine busy.
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	e.env.ControlPlane.GetAPIServer().Configure().
		Set("service-cluster-ip-range", "10.0.0.0/16"). // envtest's own has 254 addresses
		// Some clusters ask for the right to an owner's finalizers; so do we.
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		Append("audit-policy-file", policy).Append("audit-log-path", log).
		// The log is read as one file; from 100 MB on it would be rotated.
		Append("audit-log-maxsize", "100000").
		// The default, 500, lets a burst of parallel plans be refused.
		Append("max-mutating-requests-inflight", "2000")
	var err error
	if e.AdminConfig, err = e.env.Start(); err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	e.AdminConfig.QPS = -1
	if e.Admin, err = client.NewWithWatch(e.AdminConfig, client.Options{Scheme: e.Scheme}); err != nil {
		return fmt.Errorf("making the admin's client: %w", err)
	}
	op, err := e.env.AddUser(envtest.User{Name: OperatorUser, Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	if err != nil {
		return fmt.Errorf("adding the operator's user: %w", err)
	}
	e.Operator = op.Config()
	marker, err := e.env.AddUser(envtest.User{Name: markerUser, Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	if err != nil {
		return fmt.Errorf("adding the marker's user: %w", err)
	}
	mc, err := client.New(marker.Config(), client.Options{Scheme: e.Scheme})
	if err != nil {
		return fmt.Errorf("making the marker's client: %w", err)
	}
	e.Audit = &Audit{path: log, marker: mc, read: map[string][]Request{}, markers: map[string]bool{}}
	return e.startControllers()
}

// startControllers starts the real garbage collector and namespace controller,
// which envtest does not bring: what depends on owner references cannot be
// seen without.
func (e *Env) startControllers() error {
	admin, err := e.env.AddUser(envtest.User{Name: "controllers", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return fmt.Errorf("adding the controllers' user: %w", err)
	}
	raw, err := admin.KubeConfig()
	if err != nil {
		return fmt.Errorf("making the controllers' kubeconfig: %w", err)
	}
	kubeconfig := filepath.Join(e.dir, "controllers.kubeconfig")
	if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
		return fmt.Errorf("writing the controllers' kubeconfig: %w", err)
	}
	e.kcm = exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"), //nolint:gosec // the assets are the test's own
		"--kubeconfig="+kubeconfig, "--controllers=garbage-collector-controller,namespace-controller",
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000")
	var out bytes.Buffer
	e.kcm.Stdout, e.kcm.Stderr = &out, &out
	if err := e.kcm.Start(); err != nil {
		return fmt.Errorf("starting the controller manager: %w", err)
	}
	return nil
}

// Stop stops everything that Start started.
func (e *Env) Stop() error {
	var errs []error
	if e.kcm != nil && e.kcm.Process != nil {
		errs = append(errs, e.kcm.Process.Kill())
		_ = e.kcm.Wait() // it was killed: its status says only that
	}
	if e.env != nil {
		errs = append(errs, e.env.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// Eventually waits until ok says true, and returns its last error or a
// time-out naming what was waited for.
func Eventually(ctx context.Context, what string, ok func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	var last error
	for {
		done, err := ok(ctx)
		if done {
			return nil
		}
		if ctx.Err() == nil {
			last = err // not that the time is over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s in vain for %s: %w", time.Since(began).Round(time.Second), what, errors.Join(last, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// patience is how long anything is waited for. It is long because a test
// machine may be slow, and costs nothing where nothing is wrong.
const patience = 60 * time.Second

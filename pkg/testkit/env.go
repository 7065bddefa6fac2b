// Package testkit is the basis of the tests of kinds: a real API server with an
// audit log that counts requests, the operator's manager in the same process, and
// the suites that all kinds share. It is independent of kinds.
//
// The API server comes from KUBEBUILDER_ASSETS, which `make test-envtest` sets. The
// real garbage collector and namespace controller are running. Pods are not, so
// Rollouts simulates the Deployment controller.
//
// A package starts an API server of its own, unless SharedServers refers to running
// ones: `make test-envtest` starts two for all packages.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/apiserver"
)

// OperatorUser is the user name of the operator in the audit log: the account that
// the admission policies confine.
const OperatorUser = "system:serviceaccount:platform-operator-system:platform-operator"

// Env is a running API server.
type Env struct {
	// Admin has all permissions; its requests are not counted.
	Admin client.WithWatch
	// AdminConfig is the configuration of Admin.
	AdminConfig *rest.Config
	// Operator is the configuration of the operator, with a user of its own.
	Operator *rest.Config
	// Scheme contains the types of the test.
	Scheme *runtime.Scheme
	// Audit reads the audit log.
	Audit *Audit

	// running contains the operators (*Operator) that are running, and the namespaces
	// ([]string) of each.
	running sync.Map

	server *Server  // nil if it is shared
	folder string   // of the server
	lock   *os.File // of the server, if it is shared
	// since is the resource version at which the environment was started.
	since string
}

// auditPolicy logs the bodies of the operator's writes, and the metadata of all
// other requests except those for Leases.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  resources: [{group: coordination.k8s.io}]
- level: None
  verbs: [watch]
- level: Request
  users: [` + OperatorUser + `]
- level: Metadata
  users: [` + markerUser + `]
- level: None
`

// Start returns an environment with the CRDs in the given folders, on an API server
// of its own. The caller stops it.
func Start(scheme *runtime.Scheme, crds ...string) (*Env, error) {
	s, err := StartServer(crds...)
	if err != nil {
		return nil, err
	}
	e, err := connect(scheme, s.Folder)
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	e.server = s
	return e, nil
}

// StartShared is Start for tests that do not affect what the tests of other
// packages have created: objects in all namespaces, and the operator's CRDs. If the
// environment variable SharedServers is set, it uses one of those API servers. A test
// deletes its cluster-scoped objects, except namespaces: their deletion lists every type
// that the server serves, and no other package uses them.
func StartShared(scheme *runtime.Scheme, crds ...string) (*Env, error) {
	folders := filepath.SplitList(os.Getenv(SharedServers))
	if len(folders) == 0 {
		return Start(scheme, crds...)
	}
	folder, file, err := lock(context.Background(), folders)
	if err != nil {
		return nil, err
	}
	e, err := startOn(scheme, folder, crds...)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	e.lock = file
	return e, nil
}

// Shared is StartShared for one test: the environment ends with it.
func Shared(t *testing.T, scheme *runtime.Scheme) *Env {
	t.Helper()
	env, err := StartShared(scheme)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return env
}

// startOn is Start on a running server.
func startOn(scheme *runtime.Scheme, folder string, crds ...string) (*Env, error) {
	e, err := connect(scheme, folder)
	if err != nil {
		return nil, err
	}
	return e, apiserver.InstallFiles(e.AdminConfig, crds...)
}

// Unconfine exempts the operators that are started from now on from the admission
// policy, for operators of a test and for kinds that the policy does not contain. The
// audit log contains their requests as those of OperatorUser.
func (e *Env) Unconfine() {
	e.Operator.Impersonate = rest.ImpersonationConfig{UserName: "unconfined-operator", Groups: []string{"system:masters"}}
}

// connect returns an environment on a running server.
func connect(scheme *runtime.Scheme, folder string) (*Env, error) {
	rollout.HealthyAfter = 0 // Rollouts simulates no pods, and tests do not wait
	e := &Env{Scheme: scheme, folder: folder}
	for user, cfg := range map[string]**rest.Config{adminUser: &e.AdminConfig, OperatorUser: &e.Operator} {
		var err error
		if *cfg, err = userConfig(folder, user); err != nil {
			return nil, err
		}
	}
	mc, err := userConfig(folder, markerUser)
	if err != nil {
		return nil, err
	}
	if e.Admin, err = client.NewWithWatch(e.AdminConfig, client.Options{Scheme: e.Scheme}); err != nil {
		return nil, fmt.Errorf("making the admin's client: %w", err)
	}
	marker, err := client.New(mc, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making the marker's client: %w", err)
	}
	if e.Audit, err = newAudit(filepath.Join(folder, auditLog), marker); err != nil {
		return nil, err
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := e.Admin.List(context.Background(), namespaces, client.Limit(1)); err != nil {
		return nil, fmt.Errorf("reading the resource version: %w", err)
	}
	e.since = namespaces.ResourceVersion
	return e, nil
}

// Stop stops the server, unless it is shared.
func (e *Env) Stop() error {
	if e.server != nil {
		return e.server.Stop()
	}
	if e.lock != nil {
		return e.lock.Close()
	}
	return nil
}

// Eventually waits until ok returns true. Otherwise it returns the last error of
// ok, or a timeout that mentions what was waited for.
func Eventually(ctx context.Context, what string, ok func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began, pause := time.Now(), 20*time.Millisecond
	var last error
	for {
		done, err := ok(ctx)
		if done {
			return nil
		}
		if ctx.Err() == nil {
			last = err // not the timeout
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s in vain for %s: %w", time.Since(began).Round(time.Second), what, errors.Join(last, ctx.Err()))
		case <-time.After(pause):
		}
		// Parallel waits would otherwise keep the API server busy, and what they
		// wait for would take longer.
		pause = min(pause*5/4, 200*time.Millisecond)
	}
}

// patience is the time limit of every wait. It is long because a test machine may
// be slow, and costs nothing if nothing is wrong.
const patience = 2 * time.Minute

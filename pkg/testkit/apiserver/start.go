// Package apiserver starts the API servers of tests, also on a machine that is so busy
// that the time limits of envtest, and of the API server, pass.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// tries is how often something is tried. envtest gives the default namespace 5 seconds, and
// the API server gives a write 34 (requestTimeoutUpperBound), of which a CRD needs 0.8 on an
// idle machine.
const tries = 5

// Start starts the API server of env with its CRDs and webhooks. The caller stops env,
// unless there is an error.
func Start(env *envtest.Environment) (*rest.Config, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set: run the tests by `make test-envtest` or `make test-chart`, or set it to what `bin/cluster assets` prints")
	}
	// The defaults of 20 s are not enough on a busy machine.
	// When the server is stopped, it waits up to a minute for open watches.
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = 5*time.Minute, 2*time.Minute
	paths := env.CRDDirectoryPaths
	env.CRDDirectoryPaths = nil
	var last error
	for range tries {
		cfg, err := env.Start()
		if err == nil {
			if err := InstallFiles(cfg, paths...); err != nil {
				return nil, errors.Join(err, env.Stop())
			}
			return cfg, nil
		}
		last = errors.Join(err, env.Stop())
		env.KubeConfig = nil // the next server has other certificates
	}
	return nil, fmt.Errorf("starting the API server, tried %d times: %w", tries, last)
}

// InstallFiles is InstallCRDs for those in the given folders.
func InstallFiles(cfg *rest.Config, paths ...string) error {
	read := envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true}
	if err := envtest.ReadCRDFiles(&read); err != nil {
		return fmt.Errorf("reading CRDs: %w", err)
	}
	return InstallCRDs(cfg, read.CRDs)
}

// InstallCRDs installs CRDs, and waits until they are served. Those that are as stated are
// not written, because that costs the API server up to 0.8 s each.
func InstallCRDs(cfg *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var last error
	for range tries {
		options := envtest.CRDInstallOptions{MaxTime: 5 * time.Minute}
		for _, crd := range crds {
			live := &apiextensionsv1.CustomResourceDefinition{}
			err := c.Get(context.Background(), client.ObjectKeyFromObject(crd), live)
			if err != nil || live.DeletionTimestamp != nil || !equality.Semantic.DeepDerivative(crd.Spec, live.Spec) {
				options.CRDs = append(options.CRDs, crd.DeepCopy())
			}
		}
		if _, last = envtest.InstallCRDs(cfg, options); last == nil {
			return envtest.WaitForCRDs(cfg, crds, options)
		}
	}
	return fmt.Errorf("installing CRDs, tried %d times: %w", tries, last)
}

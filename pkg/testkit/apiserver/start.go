// Package apiserver starts the API servers of tests, also on a machine that is so busy
// that the time limits of envtest, and of the API server, pass.
package apiserver

import (
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// tries is how often a server is started. envtest gives the default namespace 5 seconds,
// and a request that exceeds the server's limit is not sent again.
const tries = 4

// Start starts the API server of env with its CRDs and webhooks. The caller stops env,
// unless there is an error.
func Start(env *envtest.Environment) (*rest.Config, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set: run the tests by `make test-envtest` or `make test-chart`, or set it to what `bin/cluster assets` prints")
	}
	// The defaults of 20 s, 20 s and 10 s are not enough on a busy machine.
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = 5*time.Minute, 3*time.Minute
	env.CRDInstallOptions.MaxTime = 5 * time.Minute
	// A CRD takes a second of computing. The server waits this long for open watches when it is
	// stopped, so it is less than the time to stop.
	env.ControlPlane.GetAPIServer().Configure().Set("request-timeout", "2m")
	var last error
	for range tries {
		cfg, err := env.Start()
		if err == nil {
			return cfg, nil
		}
		last = errors.Join(err, env.Stop())
		env.KubeConfig = nil // the next server has other certificates
	}
	return nil, fmt.Errorf("starting the API server, tried %d times: %w", tries, last)
}

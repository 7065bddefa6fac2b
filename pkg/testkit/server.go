package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/platform-operator/platform-operator/config/policy"
	"github.com/platform-operator/platform-operator/pkg/testkit/apiserver"
)

// SharedServers is the environment variable with the folders of the Servers that the
// tests of all packages use, separated like those of PATH. The tests of a package use
// one server, and no other package uses it at the same time.
const SharedServers = "TESTKIT_SHARED_SERVERS"

const (
	adminUser       = "admin"
	controllersUser = "controllers"
	auditLog        = "audit.log"
	accountPolicy   = "platform-operator-account"
)

// Server is an API server with its etcd, garbage collector and namespace
// controller.
type Server struct {
	// Folder contains a kubeconfig for each user, and the audit log.
	Folder string

	env *envtest.Environment
	kcm *exec.Cmd
}

// StartServer starts a server with the CRDs in the given folders, and with the
// admission policy that confines the operator's account. The caller stops it.
func StartServer(crds ...string) (*Server, error) {
	folder, err := os.MkdirTemp("", "testkit-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &Server{Folder: folder}
	if err := s.start(crds); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(crds []string) error {
	policy := filepath.Join(s.Folder, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	s.env = &envtest.Environment{CRDDirectoryPaths: crds, ErrorIfCRDPathMissing: true}
	s.env.ControlPlane.GetAPIServer().Configure().
		Set("service-cluster-ip-range", "10.0.0.0/16"). // the default of envtest has 254 addresses
		// Some clusters require the permission to update an owner's finalizers, and
		// so does this one.
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		Append("audit-policy-file", policy).Append("audit-log-path", filepath.Join(s.Folder, auditLog)).
		// The log is read as one file; by default it would be rotated at 100 MB.
		Append("audit-log-maxsize", "100000").
		// With the default of 100, clients whose watches and requests share a connection reach the
		// limit. Go's server counts a stream that it has answered until its next turn, so that on a
		// busy machine the client's next one exceeds the limit, and is refused as a PROTOCOL_ERROR.
		Set("http2-max-streams-per-connection", "1000").
		// With the default of 500, a burst of parallel plans would be rejected.
		Append("max-mutating-requests-inflight", "2000")
	if _, err := apiserver.Start(s.env); err != nil {
		s.env = nil // nothing is left to stop
		return err
	}
	for _, name := range []string{adminUser, OperatorUser, markerUser, controllersUser} {
		user, err := s.env.AddUser(envtest.User{Name: name, Groups: []string{"system:masters"}}, nil)
		if err != nil {
			return fmt.Errorf("adding user %s: %w", name, err)
		}
		raw, err := user.KubeConfig()
		if err != nil {
			return fmt.Errorf("making the kubeconfig of %s: %w", name, err)
		}
		if err := os.WriteFile(kubeconfig(s.Folder, name), raw, 0o600); err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
		}
	}
	if err := s.confine(context.Background()); err != nil {
		return fmt.Errorf("confining the operator's account: %w", err)
	}
	return s.startControllers()
}

// confine creates the policy, and waits until the API server enforces it.
func (s *Server) confine(ctx context.Context) error {
	account, binding, err := policy.Account()
	if err != nil {
		return err
	}
	// The platform configurations of tests allow keys that others do not.
	for i, v := range account.Spec.Variables {
		if v.Name == "podKeys" || v.Name == "annotations" {
			account.Spec.Variables[i].Expression = "'.*'"
		}
	}
	clients := map[string]client.Client{}
	for _, user := range []string{adminUser, OperatorUser} {
		cfg, err := userConfig(s.Folder, user)
		if err != nil {
			return err
		}
		if clients[user], err = client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
			return fmt.Errorf("making the client of %s: %w", user, err)
		}
	}
	if err := errors.Join(clients[adminUser].Create(ctx, account), clients[adminUser].Create(ctx, binding)); err != nil {
		return err
	}
	return Eventually(ctx, "the policy to be enforced", func(ctx context.Context) (bool, error) {
		unowned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "unowned"}}
		err := clients[OperatorUser].Create(ctx, unowned, client.DryRunAll)
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err), err
	})
}

func kubeconfig(folder, user string) string { return filepath.Join(folder, user+".kubeconfig") }

// userConfig returns the configuration of a client without a rate limit.
func userConfig(folder, user string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig(folder, user))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", user, err)
	}
	cfg.QPS = -1
	return cfg, nil
}

// startControllers starts the real garbage collector and namespace controller,
// which envtest does not include. Without them, behavior that depends on owner
// references cannot be observed.
func (s *Server) startControllers() error {
	s.kcm = exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"), //nolint:gosec // the assets are chosen by the test
		"--kubeconfig="+kubeconfig(s.Folder, controllersUser), "--controllers=garbage-collector-controller,namespace-controller",
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000")
	var out bytes.Buffer
	s.kcm.Stdout, s.kcm.Stderr = &out, &out
	if err := s.kcm.Start(); err != nil {
		return fmt.Errorf("starting the controller manager: %w", err)
	}
	return nil
}

// lock waits until no other process uses one of the servers in the folders, and
// returns its folder. The process uses it until it closes the file, or ends.
func lock(ctx context.Context, folders []string) (string, *os.File, error) {
	var folder string
	var held *os.File
	err := Eventually(ctx, "another package to end its tests", func(context.Context) (bool, error) {
		for _, f := range folders {
			file, err := os.OpenFile(filepath.Join(f, "lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the folder is chosen by the caller
			if err != nil {
				return false, fmt.Errorf("opening the lock of a shared server: %w", err)
			}
			if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				folder, held = f, file
				return true, nil
			}
			_ = file.Close() // another process has the lock
		}
		return false, nil
	})
	return folder, held, err
}

// Stop stops everything that StartServer started.
func (s *Server) Stop() error {
	var errs []error
	if s.kcm != nil && s.kcm.Process != nil {
		errs = append(errs, s.kcm.Process.Kill())
		_ = s.kcm.Wait() // it was killed, and its status says only that
	}
	if s.env != nil {
		errs = append(errs, s.env.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(s.Folder))...)
}

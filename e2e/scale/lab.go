package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/config"
)

const (
	operatorNamespace = "platform-operator-system"
	operatorAccount   = "platform-operator"
	// patience is the time limit of every wait that does not depend on the number of
	// objects.
	patience = 5 * time.Minute
)

var webServers = schema.GroupVersionKind{Group: "my.domain", Version: "v1", Kind: "WebServer"}

// lab is a control plane with the CRDs and the permissions of the operator, a
// simulated node, and one operator at a time.
type lab struct {
	options

	programs []string
	dir      string
	config   *rest.Config
	// client writes, and reads from a cache.
	client  client.Client
	results []measured // of each program
	cancel  context.CancelCauseFunc

	// args and env are those of the operator's Deployment.
	args, env []string
	starts    int
	current   *operator
}

func (l *lab) setUp(ctx context.Context) (err error) {
	if l.dir, err = os.MkdirTemp("", "scale-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if l.config, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	l.config.QPS = -1 // no throttling
	if err := l.install(ctx); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(l.config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	l.client = mgr.GetClient()
	if err := simulateNode(ctx, mgr); err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil {
			l.cancel(fmt.Errorf("the simulated node: %w", err))
		}
	}()
	return nil
}

// tearDown ends the operator, and keeps its logs if the run failed.
func (l *lab) tearDown(failed bool) error {
	err := l.stop()
	l.cancel(nil)
	if failed {
		logf("the logs of the operator are in %s", l.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// install applies config/default, except for the Deployment of the operator, whose
// arguments and environment it reads.
func (l *lab) install(ctx context.Context) error {
	manifests, err := command(ctx, nil, "kubectl", "kustomize", "config/default")
	if err != nil {
		return err
	}
	var apply bytes.Buffer
	// The defaults, in a form that an earlier operator reads, too: it refuses fields that it does not know.
	platform := filepath.Join(l.dir, "platform.yaml")
	if err := os.WriteFile(platform, []byte("apiVersion: "+config.Version+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the platform configuration: %w", err)
	}
	for doc := range strings.SplitSeq(manifests, "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return fmt.Errorf("reading config/default: %w", err)
		}
		if u.GetKind() == "Deployment" {
			if err := l.readDeployment(u, platform); err != nil {
				return err
			}
			continue
		}
		apply.WriteString(doc + "\n---\n")
	}
	if len(l.args) == 0 {
		return errors.New("config/default has no Deployment")
	}
	if _, err := command(ctx, &apply, "kubectl", "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	if l.before != "" {
		// An earlier operator may need other permissions than those of today.
		if _, err := command(ctx, nil, "kubectl", "create", "clusterrolebinding", "scale", "--clusterrole=cluster-admin", "--serviceaccount="+operatorNamespace+":"+operatorAccount); err != nil {
			return err
		}
	}
	return errors.Join(l.writeKubeconfig(ctx, platform+".kubeconfig"), l.serveWebhooks(ctx))
}

func (l *lab) readDeployment(u unstructured.Unstructured, platform string) error {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		var container corev1.Container
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.(map[string]any), &container); err != nil {
			return fmt.Errorf("reading the Deployment of the operator: %w", err)
		}
		for _, a := range container.Args {
			if strings.HasPrefix(a, "--config=") {
				a = "--config=" + platform
			}
			l.args = append(l.args, a)
		}
		for _, e := range container.Env {
			if e.ValueFrom == nil {
				l.env = append(l.env, e.Name+"="+e.Value)
			}
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig with a token of the operator's ServiceAccount.
func (l *lab) writeKubeconfig(ctx context.Context, path string) error {
	c, err := client.New(l.config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: operatorAccount}}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64((24 * time.Hour).Seconds()))}}
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		return fmt.Errorf("requesting a token: %w", err)
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["scale"] = &clientcmdapi.Cluster{
		Server: l.config.Host, CertificateAuthority: l.config.CAFile, CertificateAuthorityData: l.config.CAData,
	}
	k.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	k.Contexts["scale"] = &clientcmdapi.Context{Cluster: "scale", AuthInfo: "operator"}
	k.CurrentContext = "scale"
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("writing the operator's kubeconfig: %w", err)
	}
	l.env = append(l.env, "KUBECONFIG="+path, "POD_NAMESPACE="+operatorNamespace, "POD_NAME=platform-operator-0")
	return nil
}

// serveWebhooks replaces kube-proxy: this machine has the ClusterIP of the Service of
// the webhooks, and the operator listens at its port.
func (l *lab) serveWebhooks(ctx context.Context) error {
	address, err := command(ctx, nil, "kubectl", "get", "service", "-n", operatorNamespace, "platform-operator-webhook", "-o", "jsonpath={.spec.clusterIP} {.spec.ports[0].port}")
	if err != nil {
		return err
	}
	ip, port, _ := strings.Cut(address, " ")
	l.args = append(l.args, "--webhook-port="+port)
	_, err = command(ctx, nil, "ip", "address", "add", ip+"/32", "dev", "lo")
	return err
}

// restart replaces the current operator, if any, and waits until the workers of the new
// one have started and a WebServer can be created.
func (l *lab) restart(ctx context.Context, program string) (err error) {
	if err := l.stop(); err != nil {
		return err
	}
	l.starts++
	if l.current, err = startOperator(program, l.args, append(os.Environ(), l.env...), filepath.Join(l.dir, fmt.Sprintf("operator-%d.log", l.starts)), l.cancel); err != nil {
		return err
	}
	if err := l.current.lead(ctx); err != nil {
		return err
	}
	var last error
	if err := wait(ctx, patience, "a WebServer that can be created", func() (bool, error) {
		last = l.client.Create(ctx, webServer(metav1.NamespaceDefault, "dry-run"), client.DryRunAll)
		return last == nil, nil
	}); err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// stop ends the current operator, if any.
func (l *lab) stop() error {
	op := l.current
	if l.current = nil; op == nil {
		return nil
	}
	return op.stop()
}

func (l *lab) namespace(ctx context.Context, name string) error {
	if err := l.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	// Pods need its default account, if its controller is fast enough.
	return wait(ctx, patience, "the default account of "+name, func() (bool, error) {
		err := l.client.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

func webServer(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"image": "nginx:1.27.3", "replicas": int64(1), "service": map[string]any{"type": "ClusterIP"}},
	}}
	u.SetGroupVersionKind(webServers)
	return u
}

// ready waits until the cache holds the object with the condition Ready.
func (l *lab) ready(ctx context.Context, limit time.Duration, o *unstructured.Unstructured) error {
	return wait(ctx, limit, o.GetName()+" to become Ready", func() (bool, error) {
		err := l.client.Get(ctx, client.ObjectKeyFromObject(o), o)
		return err == nil && isReady(o), client.IgnoreNotFound(err)
	})
}

// isReady reports whether the condition Ready is True in the latest generation.
func isReady(u *unstructured.Unstructured) bool {
	if n, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); n != u.GetGeneration() {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			return c["status"] == "True"
		}
	}
	return false
}

// wait polls until ok returns true or an error.
func wait(ctx context.Context, limit time.Duration, what string, ok func() (bool, error)) error {
	err := utilwait.PollUntilContextTimeout(ctx, 10*time.Millisecond, limit, true, func(context.Context) (bool, error) { return ok() })
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// command runs a program and returns what it prints.
func command(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

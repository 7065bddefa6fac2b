package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/e2e/scale/kubelet"
)

const (
	operatorNamespace = "platform-operator-system"
	operatorAccount   = "platform-operator"
	// patience is the time limit of every wait that does not depend on the number of
	// objects.
	patience = 5 * time.Minute
	// parallel is the number of requests that the client sends at the same time.
	parallel = 32
)

// lab is a control plane with the CRDs and the permissions of the operator, a
// simulated node and the replicas of the operator.
type lab struct {
	options

	dir     string
	config  *rest.Config
	typed   kubernetes.Interface
	client  dynamic.Interface
	seen    *observer
	results results
	cancel  context.CancelCauseFunc

	// args and env are those of the operator's Deployment.
	args, env []string
	replicas  int
	// current is the operator that is expected to lead.
	current *operator
	running []*operator
	// webhookPort is the port to which the Service of the webhooks forwards, and
	// forwarded are its connections.
	mu          sync.Mutex
	webhookPort int
	forwarded   map[net.Conn]bool
	// edited is how many edits of the other user have been sent.
	edited int
	// scraper is a token with permission to get /metrics.
	scraper string
	// peak is the maximum of the resident memory of the operators that have ended.
	peak float64
}

// newLab returns a lab that calls cancel if one of its parts fails.
func newLab(o options, cancel context.CancelCauseFunc) *lab {
	return &lab{options: o, cancel: cancel, forwarded: map[net.Conn]bool{}}
}

func (l *lab) setUp(ctx context.Context) (err error) {
	if l.dir, err = os.MkdirTemp("", "scale-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if l.config, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	l.config.QPS = -1 // no throttling
	if l.client, err = dynamic.NewForConfig(l.config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	protobuf := rest.CopyConfig(l.config)
	protobuf.ContentType, protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	if l.typed, err = kubernetes.NewForConfig(protobuf); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	node := &kubelet.Kubelet{Client: l.typed, Node: "simulated"}
	go func() {
		if err := node.Run(ctx); err != nil {
			l.cancel(fmt.Errorf("the simulated node: %w", err))
		}
	}()
	if err := l.install(ctx); err != nil {
		return err
	}
	if err := l.forwardWebhooks(ctx); err != nil {
		return err
	}
	if l.scraper, err = l.createScraper(ctx); err != nil {
		return err
	}
	if l.seen, err = observe(ctx, l.client); err != nil {
		return err
	}
	if l.current, err = l.start(ctx); err != nil {
		return err
	}
	return l.admissionServes(ctx)
}

// tearDown ends all processes, and keeps the logs of the operator if the run failed.
func (l *lab) tearDown(failed bool) error {
	var errs []error
	for _, op := range l.running {
		errs = append(errs, op.stop())
	}
	l.cancel(nil)
	if l.dir == "" {
		return errors.Join(errs...)
	}
	if failed {
		logf("the logs of the operator are in %s", l.dir)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// install applies config/default, except for the Deployment of the operator, whose
// arguments and environment it reads.
func (l *lab) install(ctx context.Context) error {
	manifests, err := command(ctx, nil, "kubectl", "kustomize", "config/default")
	if err != nil {
		return err
	}
	var apply bytes.Buffer
	platform := filepath.Join(l.dir, "platform.yaml")
	for doc := range strings.SplitSeq(manifests, "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return fmt.Errorf("reading config/default: %w", err)
		}
		switch u.GetKind() {
		case "Deployment":
			if err := l.readDeployment(u, platform); err != nil {
				return err
			}
			continue
		case "ConfigMap":
			text, _, _ := unstructured.NestedString(u.Object, "data", "platform.yaml")
			if err := os.WriteFile(platform, []byte(text), 0o600); err != nil {
				return fmt.Errorf("writing the platform configuration: %w", err)
			}
		}
		apply.WriteString(doc + "\n---\n")
	}
	if len(l.args) == 0 {
		return errors.New("config/default has no Deployment")
	}
	if _, err := command(ctx, &apply, "kubectl", "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	kubeconfig := filepath.Join(l.dir, "operator.kubeconfig")
	if err := l.writeKubeconfig(ctx, kubeconfig); err != nil {
		return err
	}
	l.env = append(l.env, "KUBECONFIG="+kubeconfig, "POD_NAMESPACE="+operatorNamespace)
	return nil
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
				l.results.Environment = append(l.results.Environment, e.Name+"="+e.Value)
			}
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig with a token of the operator's ServiceAccount.
func (l *lab) writeKubeconfig(ctx context.Context, path string) error {
	token, err := l.token(ctx, operatorAccount)
	if err != nil {
		return err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["scale"] = &clientcmdapi.Cluster{
		Server: l.config.Host, CertificateAuthority: l.config.CAFile, CertificateAuthorityData: l.config.CAData,
	}
	c.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["scale"] = &clientcmdapi.Context{Cluster: "scale", AuthInfo: "operator"}
	c.CurrentContext = "scale"
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("writing the operator's kubeconfig: %w", err)
	}
	return nil
}

func (l *lab) token(ctx context.Context, account string) (string, error) {
	seconds := int64((24 * time.Hour).Seconds())
	t, err := l.typed.CoreV1().ServiceAccounts(operatorNamespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token: %w", err)
	}
	return t.Status.Token, nil
}

func (l *lab) createScraper(ctx context.Context) (string, error) {
	meta := metav1.ObjectMeta{Name: "scale-scraper", Namespace: operatorNamespace}
	_, err := l.typed.CoreV1().ServiceAccounts(operatorNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err == nil {
		_, err = l.typed.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}},
		}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = l.typed.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: meta.Name}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("creating the account that reads metrics: %w", err)
	}
	return l.token(ctx, meta.Name)
}

// forwardWebhooks does what kube-proxy does on a node: it forwards the ClusterIP
// of the Service of the webhooks to an operator.
func (l *lab) forwardWebhooks(ctx context.Context) error {
	var service *corev1.Service
	list, err := l.typed.CoreV1().Services(operatorNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("looking for the Service of the webhooks: %w", err)
	}
	for i, s := range list.Items {
		if strings.Contains(s.Name, "webhook") {
			service = &list.Items[i]
		}
	}
	if service == nil {
		return errors.New("config/default has no Service for webhooks")
	}
	if _, err := command(ctx, nil, "ip", "address", "add", service.Spec.ClusterIP+"/32", "dev", "lo"); err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(service.Spec.Ports[0].Port)))
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(from)
		}
	}()
	return nil
}

func (l *lab) forward(from net.Conn) {
	l.mu.Lock()
	port := l.webhookPort
	l.forwarded[from] = true
	l.mu.Unlock()
	defer func() {
		from.Close()
		l.mu.Lock()
		delete(l.forwarded, from)
		l.mu.Unlock()
	}()
	to, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1]) // the API server repeats the call
			done <- struct{}{}
		}()
	}
	<-done
}

// start starts a replica. It leads as soon as no other one does.
func (l *lab) start(ctx context.Context) (*operator, error) {
	op, err := l.standby()
	if err != nil {
		return nil, err
	}
	l.serveAdmission(op)
	return op, op.lead(ctx)
}

// serveAdmission makes the Service of the webhooks forward to the operator only.
func (l *lab) serveAdmission(op *operator) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.webhookPort = op.webhookPort
	for c := range l.forwarded {
		c.Close()
	}
}

// standby starts a replica while another one leads.
func (l *lab) standby() (*operator, error) {
	l.replicas++
	op, err := startOperator(l.operator, l.replicas, l.args, append(os.Environ(), l.env...),
		filepath.Join(l.dir, fmt.Sprintf("operator-%d.log", l.replicas)), l.cancel)
	if err != nil {
		return nil, err
	}
	l.running = append(l.running, op)
	return op, nil
}

// stop ends an operator and remembers its memory.
func (l *lab) stop(op *operator) error {
	l.notePeak(op)
	for i, r := range l.running {
		if r == op {
			l.running = append(l.running[:i], l.running[i+1:]...)
			break
		}
	}
	return op.stop()
}

func (l *lab) notePeak(op *operator) {
	_, peak := memory(op.pid())
	l.peak = max(l.peak, peak)
}

// admissionServes waits until a WebServer can be created.
func (l *lab) admissionServes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := l.dryRun(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no WebServer can be created: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (l *lab) dryRun(ctx context.Context) error {
	_, err := l.client.Resource(webServers).Namespace(metav1.NamespaceDefault).Create(ctx,
		webServer(metav1.NamespaceDefault, "dry-run"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func (l *lab) namespace(ctx context.Context, name string) error {
	_, err := l.typed.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	// Pods need its default account, if its controller is fast enough.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := l.typed.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the namespace %s has no default account: %w", name, err)
		case <-time.After(20 * time.Millisecond):
		}
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

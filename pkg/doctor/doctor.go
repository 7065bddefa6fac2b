// Package doctor checks what the operator needs from its cluster, and names the remedy for
// what is missing. It only reads.
package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// State is the result of a check.
type State string

// The states of checks.
const (
	// OK means that nothing has to be done.
	OK State = "ok"
	// Note means that an optional feature is not available.
	Note State = "note"
	// Failed means that the operator does not work, or soon will not.
	Failed State = "FAILED"
	// Unknown means that the cluster could not be read.
	Unknown State = "UNKNOWN"
)

// Check is the result of one check.
type Check struct {
	Name  string
	State State
	// Text is what was found, with the remedy if the state is not OK.
	Text string
}

// Checks are the results of all checks.
type Checks []Check

// ExitCode returns 1 if a check failed, 2 if one could not read the cluster, and otherwise 0.
func (c Checks) ExitCode() int {
	has := func(s State) bool { return slices.ContainsFunc(c, func(k Check) bool { return k.State == s }) }
	switch {
	case has(Unknown):
		return 2
	case has(Failed):
		return 1
	}
	return 0
}

// Print writes one line for each check.
func (c Checks) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range c {
		fmt.Fprintf(t, "%s\t%s\t%s\n", k.State, k.Name, strings.Join(strings.Fields(k.Text), " "))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// Doctor checks a cluster.
type Doctor struct {
	client.Client
	CRDs []apiextensionsv1.CustomResourceDefinition
	Now  time.Time

	namespace  string // of the operator
	service    string // of the webhooks
	bundles    map[string][]byte
	kinds      map[string]bool // that the webhooks validate, by the name of the CRD
	deployment *appsv1.Deployment
}

// disables reports whether the platform configuration disables a kind: then the chart installs
// neither its CRD nor its webhooks.
func (d *Doctor) disables(crd string) bool { return len(d.kinds) > 0 && !d.kinds[crd] }

// part selects the objects of the installation.
var part = client.MatchingLabels{"app.kubernetes.io/part-of": naming.ManagedBy}

// Run makes all checks.
func (d *Doctor) Run(ctx context.Context) Checks {
	var all Checks
	for _, c := range []struct {
		name string
		make func(context.Context) (State, string, error)
	}{
		{"webhooks", d.webhooks},
		{"operator", d.operator},
		{"CRDs", d.crds},
		{"certificate", d.certificate},
		{"permissions", d.permissions},
		{"admission policies", d.policies},
		{"clock", d.clock},
		{"metrics", d.metrics},
		{"Ingress", d.ingress},
		{"Gateway API", d.gateways},
	} {
		state, text, err := c.make(ctx)
		if err != nil {
			state, text = Unknown, explain(err)
		}
		all = append(all, Check{c.name, state, text})
	}
	return all
}

// explain shortens an error that says what an account is not permitted to do.
func explain(err error) string {
	if _, what, found := strings.Cut(err.Error(), " cannot "); found && apierrors.IsForbidden(err) {
		return fmt.Sprintf("Your account cannot %s. Use one that can.", what)
	}
	return err.Error()
}

func (d *Doctor) crds(ctx context.Context) (State, string, error) {
	n := 0
	for _, want := range d.CRDs {
		live := crd()
		if err := d.Get(ctx, client.ObjectKey{Name: want.Name}, live); apierrors.IsNotFound(err) && d.disables(want.Name) {
			continue
		} else if apierrors.IsNotFound(err) {
			return Failed, want.Name + " is missing. Install it by helm upgrade, or kubectl apply --server-side -k config/crd.", nil
		} else if err != nil {
			return "", "", fmt.Errorf("reading CustomResourceDefinition %s: %w", want.Name, err)
		}
		have := apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &have); err != nil {
			return "", "", fmt.Errorf("reading CustomResourceDefinition %s: %w", want.Name, err)
		}
		if !slices.ContainsFunc(have.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}) {
			return Failed, want.Name + " is not established. Its conditions say why.", nil
		}
		for _, v := range want.Spec.Versions {
			if v.Served && !slices.ContainsFunc(have.Spec.Versions, func(h apiextensionsv1.CustomResourceDefinitionVersion) bool { return h.Name == v.Name && h.Served }) {
				return Failed, fmt.Sprintf("%s does not serve version %s. Apply the CRDs of this version.", want.Name, v.Name), nil
			}
		}
		n++
	}
	return OK, fmt.Sprintf("%d, with all versions", n), nil
}

func crd() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
}

// webhooks finds the configurations, and the Service that they call.
func (d *Doctor) webhooks(ctx context.Context) (State, string, error) {
	var mutating admissionv1.MutatingWebhookConfigurationList
	var validating admissionv1.ValidatingWebhookConfigurationList
	for _, list := range []client.ObjectList{&mutating, &validating} {
		if err := d.List(ctx, list, part); err != nil {
			return "", "", fmt.Errorf("listing %T: %w", list, err)
		}
	}
	d.bundles, d.kinds = map[string][]byte{}, map[string]bool{}
	add := func(kind, name string, c admissionv1.WebhookClientConfig) {
		if c.Service != nil {
			d.namespace, d.service = c.Service.Namespace, c.Service.Name
		}
		d.bundles[kind+"/"+name] = c.CABundle
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			add("mutatingwebhookconfiguration", c.Name, w.ClientConfig)
		}
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			add("validatingwebhookconfiguration", c.Name, w.ClientConfig)
			for _, r := range w.Rules {
				d.kinds[r.Resources[0]+"."+r.APIGroups[0]] = true
			}
		}
	}
	switch {
	case len(mutating.Items) == 0 || len(validating.Items) == 0:
		return Failed, "There is no webhook configuration of the operator: the rules of the platform are not enforced. Install the chart again, with webhooks.enabled.", nil
	case d.service == "":
		return Failed, "The webhook configurations name no Service. Install the chart again.", nil
	}
	ready, err := d.readyEndpoints(ctx)
	if err != nil {
		return "", "", err
	}
	if ready == 0 {
		return Failed, fmt.Sprintf("Service %s/%s has no ready endpoint: new objects and changes of specs are refused, unless the namespace was deleted. Look at the pods there.", d.namespace, d.service), nil
	}
	return OK, fmt.Sprintf("%d ready endpoints in namespace %s", ready, d.namespace), nil
}

// readyEndpoints counts the pods that answer for the Service of the webhooks.
func (d *Doctor) readyEndpoints(ctx context.Context) (ready int, err error) {
	var slices discoveryv1.EndpointSliceList
	if err := d.List(ctx, &slices, client.InNamespace(d.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: d.service}); err != nil {
		return 0, fmt.Errorf("listing the endpoints of the webhooks: %w", err)
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready++
			}
		}
	}
	return ready, nil
}

func (d *Doctor) configurations() []string { return slices.Sorted(maps.Keys(d.bundles)) }

func (d *Doctor) operator(ctx context.Context) (State, string, error) {
	var all appsv1.DeploymentList
	// Without webhooks the namespace is not known.
	if err := d.List(ctx, &all, client.InNamespace(d.namespace), part); err != nil {
		return "", "", fmt.Errorf("listing Deployments of the operator: %w", err)
	}
	if len(all.Items) == 0 {
		return Failed, "There is no Deployment of the operator. Install it.", nil
	}
	o := &all.Items[0]
	d.namespace, d.deployment = o.Namespace, o
	switch want := *cmp.Or(o.Spec.Replicas, new(int32(1))); {
	case want == 0:
		return Failed, fmt.Sprintf("Deployment %s/%s is scaled to 0. Scale it up.", o.Namespace, o.Name), nil
	case o.Status.ReadyReplicas < want:
		return Failed, fmt.Sprintf("Deployment %s/%s has %d of %d ready replicas. Look at its pods and their logs.", o.Namespace, o.Name, o.Status.ReadyReplicas, want), nil
	}
	return OK, fmt.Sprintf("Deployment %s/%s has %d ready replicas", o.Namespace, o.Name, o.Status.ReadyReplicas), nil
}

// soon is how long before its expiry a certificate should have been renewed, unless it is
// valid for a short time only.
const soon = 7 * 24 * time.Hour

// unchecked is the result of a check that depends on one that did not succeed.
const unchecked = "not checked, because of what is reported above"

func (d *Doctor) certificate(ctx context.Context) (State, string, error) {
	if d.service == "" {
		return Note, unchecked, nil
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: d.namespace, Name: d.service + "-cert"}
	if err := d.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
		return "", "", fmt.Errorf("reading Secret %s: %w", key, err)
	}
	block, rest := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return Failed, fmt.Sprintf("Secret %s contains no certificate. Look at the log of the operator, or at the Certificate of cert-manager.", key), nil
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Failed, fmt.Sprintf("Secret %s contains no valid certificate (%v). Delete it: it is issued again.", key, err), nil
	}
	if left := leaf.NotAfter.Sub(d.Now); left < min(soon, leaf.NotAfter.Sub(leaf.NotBefore)/10) {
		return Failed, fmt.Sprintf("The certificate in Secret %s is valid until %s, and was not renewed. Look at the log of the operator, or at the Certificate of cert-manager.", key, leaf.NotAfter.Format(time.RFC3339)), nil
	}
	intermediates := x509.NewCertPool()
	intermediates.AppendCertsFromPEM(rest)
	for _, name := range d.configurations() {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(d.bundles[name])
		if _, err := leaf.Verify(x509.VerifyOptions{
			DNSName: d.service + "." + d.namespace + ".svc", Roots: roots, Intermediates: intermediates, CurrentTime: d.Now,
		}); err != nil {
			return Failed, fmt.Sprintf("The caBundle of %s does not verify the certificate in Secret %s (%v). Look for another writer of the bundle, then restart the operator.", name, key, err), nil
		}
	}
	return OK, fmt.Sprintf("valid until %s, and trusted by all webhook configurations", leaf.NotAfter.Format(time.DateOnly)), nil
}

func (d *Doctor) permissions(ctx context.Context) (State, string, error) {
	o := d.deployment
	if o == nil {
		return Note, unchecked, nil
	}
	user := fmt.Sprintf("system:serviceaccount:%s:%s", o.Namespace, cmp.Or(o.Spec.Template.Spec.ServiceAccountName, "default"))
	needed := []authorizationv1.ResourceAttributes{{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: o.Namespace, Name: naming.ManagedBy}}
	for _, c := range d.CRDs {
		if d.disables(c.Name) {
			continue
		}
		needed = append(needed,
			authorizationv1.ResourceAttributes{Verb: "list", Group: c.Spec.Group, Resource: c.Spec.Names.Plural},
			authorizationv1.ResourceAttributes{Verb: "patch", Group: c.Spec.Group, Resource: c.Spec.Names.Plural, Subresource: "status"})
	}
	needed = append(needed,
		authorizationv1.ResourceAttributes{Verb: "create", Group: "apps", Resource: "deployments"},
		authorizationv1.ResourceAttributes{Verb: "create", Resource: "services"},
		authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"})
	for _, a := range needed {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}, ResourceAttributes: &a}}
		if err := d.Create(ctx, review); err != nil {
			return "", "", fmt.Errorf("asking for the permissions of %s: %w", user, err)
		}
		switch what := strings.Trim(a.Resource+"."+a.Group, "."); {
		case review.Status.Allowed:
		case a.Namespace != "":
			return Failed, fmt.Sprintf("%s may not %s %s in its namespace: it cannot lead, and its webhooks and policies have no effect. Apply the roles of this version.", user, a.Verb, what), nil
		default:
			return Note, fmt.Sprintf("%s may not %s %s in all namespaces. If you have not set watchNamespaces, apply the roles of this version.", user, a.Verb, what), nil
		}
	}
	return OK, user + " may read the kinds and write their children", nil
}

func (d *Doctor) policies(ctx context.Context) (State, string, error) {
	var policies admissionv1.ValidatingAdmissionPolicyList
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	for _, list := range []client.ObjectList{&policies, &bindings} {
		if err := d.List(ctx, list, part); err != nil {
			return "", "", fmt.Errorf("listing %T: %w", list, err)
		}
	}
	if len(policies.Items) == 0 {
		return Note, "The account of the operator is not confined. Set admissionPolicy.enabled, or apply config/policy.", nil
	}
	for _, p := range policies.Items {
		if !slices.ContainsFunc(bindings.Items, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool { return b.Spec.PolicyName == p.Name }) {
			return Failed, fmt.Sprintf("ValidatingAdmissionPolicy %s has no binding and therefore no effect. Install the chart again.", p.Name), nil
		}
	}
	return OK, fmt.Sprintf("%d, with bindings", len(policies.Items)), nil
}

// drift is the difference of clocks that nothing depends on.
const drift = 5 * time.Second

// clock compares the clock of the operator with that of the API server, which both are in
// the Lease: the operator writes when it renewed it, and the API server when that was.
func (d *Doctor) clock(ctx context.Context) (State, string, error) {
	if d.deployment == nil {
		return Note, unchecked, nil
	}
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: d.namespace, Name: naming.ManagedBy}
	if err := d.Get(ctx, key, &lease); apierrors.IsNotFound(err) {
		return Failed, fmt.Sprintf("There is no Lease %s: no replica of the operator leads. Look at the logs of its pods.", key), nil
	} else if err != nil {
		return "", "", fmt.Errorf("reading Lease %s: %w", key, err)
	}
	var written time.Time
	for _, m := range lease.ManagedFields {
		if m.Time != nil && m.Time.After(written) {
			written = m.Time.Time
		}
	}
	if written.IsZero() || lease.Spec.RenewTime == nil {
		return Note, "The Lease does not say when it was renewed.", nil
	}
	if off := lease.Spec.RenewTime.Sub(written).Round(time.Second); off.Abs() > drift {
		return Failed, fmt.Sprintf("The clocks of the operator and of the API server differ by %s. Synchronize the clocks of the nodes.", off), nil
	}
	return OK, "the operator and the API server agree", nil
}

func (d *Doctor) metrics(ctx context.Context) (State, string, error) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}}
	if err := d.Get(ctx, client.ObjectKey{Name: "v1beta1.metrics.k8s.io"}, o); apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return Note, "metrics.k8s.io is not served: autoscaling cannot work. Install metrics-server.", nil
	} else if err != nil {
		return "", "", fmt.Errorf("reading APIService v1beta1.metrics.k8s.io: %w", err)
	}
	if !isTrue(o, "Available") {
		return Failed, "metrics.k8s.io does not answer: autoscaling does not work, and deleting namespaces may hang. Look at the pods of metrics-server.", nil
	}
	return OK, "metrics.k8s.io is served", nil
}

func (d *Doctor) ingress(ctx context.Context) (State, string, error) {
	var all networkingv1.IngressClassList
	if err := d.List(ctx, &all); err != nil {
		return "", "", fmt.Errorf("listing IngressClasses: %w", err)
	}
	byDefault := slices.ContainsFunc(all.Items, func(c networkingv1.IngressClass) bool {
		return c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
	})
	switch {
	case len(all.Items) == 0:
		return Note, "There is no IngressClass: expose with type Ingress has no effect. Install an ingress controller.", nil
	case !byDefault:
		return Note, "No IngressClass is the default: objects must set expose.ingress.ingressClassName.", nil
	}
	return OK, fmt.Sprintf("%d classes, with a default", len(all.Items)), nil
}

func (d *Doctor) gateways(ctx context.Context) (State, string, error) {
	all := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClassList"}}
	if err := d.List(ctx, all); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return Note, "The Gateway API is not installed: expose with a Gateway has no effect. Install its CRDs and a controller.", nil
	} else if err != nil {
		return "", "", fmt.Errorf("listing GatewayClasses: %w", err)
	}
	if !slices.ContainsFunc(all.Items, func(o unstructured.Unstructured) bool { return isTrue(&o, "Accepted") }) {
		return Note, "No controller has accepted a GatewayClass: expose with a Gateway has no effect. Install a controller.", nil
	}
	return OK, "a controller has accepted a GatewayClass", nil
}

func isTrue(o *unstructured.Unstructured, condition string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == condition && m["status"] == "True"
	})
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	deployment = "platform-operator"
	// The Operator Lifecycle Manager makes a Service and a certificate for each Deployment
	// with webhooks, and gives both these names (pkg/controller/install/certresources.go of
	// operator-lifecycle-manager v0.28.0).
	olmSecret = deployment + "-service-cert"
)

// object is a Kubernetes object.
type object = map[string]any

// writeOLM writes to dist/olm the bundle for the Operator Lifecycle Manager, as folders, made
// of the objects of install.yaml. The file olm/rbac.yaml has the accounts and permissions
// that OLM creates itself if it installs a bundle from a catalog, and expects to exist if a
// ClusterServiceVersion is applied directly.
func (r release) writeOLM() error {
	raw, err := os.ReadFile(filepath.Join(r.dist, "install.yaml"))
	if err != nil {
		return err
	}
	b := bundle{version: r.version, replaces: r.replaces, source: r.source}
	for i, text := range bytes.Split(raw, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(text, &o); err != nil {
			return fmt.Errorf("object %d of install.yaml: %w", i+1, err)
		}
		if err := b.add(o); err != nil {
			return fmt.Errorf("object %d of install.yaml: %w", i+1, err)
		}
	}
	for name, content := range b.files() {
		path := filepath.Join("olm", name)
		if err := os.MkdirAll(filepath.Join(r.dist, filepath.Dir(path)), 0o755); err != nil { //nolint:gosec // G301: it is published
			return err
		}
		if err := r.write(path, content); err != nil {
			return err
		}
	}
	return nil
}

// bundle is what the objects of an installation become for OLM.
type bundle struct {
	version, replaces, source string

	crds, rbac, webhooks           []object
	deployments                    []any
	clusterPermissions, permission []any // rules
}

// add sorts an object of install.yaml in. What OLM makes itself is left out: the namespace,
// the Service and the certificate of webhooks, and roles for users.
func (b *bundle) add(o object) error {
	meta, _ := o["metadata"].(object)
	name, _ := meta["name"].(string)
	switch o["kind"] {
	case "CustomResourceDefinition":
		b.crds = append(b.crds, o)
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		b.addWebhooks(o)
	case "Deployment":
		return b.addDeployment(o)
	case "ServiceAccount":
		delete(meta, "namespace") // the one in which it is applied
		b.rbac = append(b.rbac, o)
	case "ClusterRole":
		if name == "platform-operator-manager" {
			b.clusterPermissions = o["rules"].([]any)
		}
	case "Role":
		b.permission = b.readsCertificate(o["rules"].([]any))
	}
	return nil
}

// readsCertificate returns rules that read the certificate of OLM, and do not write one.
func (b *bundle) readsCertificate(rules []any) []any {
	for _, r := range rules {
		rule := r.(object)
		if slices.Contains(rule["resources"].([]any), any("secrets")) {
			rule["resourceNames"], rule["verbs"] = []any{olmSecret}, []any{"get", "list", "watch"}
		}
	}
	return rules
}

// addDeployment takes the configuration from the environment, which a Subscription can set,
// and the namespaces from the OperatorGroup, which OLM writes into an annotation.
func (b *bundle) addDeployment(o object) error {
	spec := o["spec"].(object)
	pod := spec["template"].(object)["spec"].(object)
	manager := pod["containers"].([]any)[0].(object)
	var args []any
	for _, a := range manager["args"].([]any) {
		name, _, _ := strings.Cut(a.(string), "=")
		switch name {
		case "--config", "--certificate-services", "--certificate-validity", "--certificate-renew-before":
		case "--webhook-secret":
			args = append(args, name+"="+olmSecret)
		case "--webhook-configuration": // OLM makes several, with names of its choice
			args = append(args, name+"=")
		case "--manage-certificates":
			args = append(args, name+"=false")
		default:
			args = append(args, a)
		}
	}
	manager["args"] = args
	manager["env"] = append(manager["env"].([]any), object{
		"name":      "WATCH_NAMESPACE",
		"valueFrom": object{"fieldRef": object{"fieldPath": "metadata.annotations['olm.targetNamespaces']"}},
	})
	isConfig := func(v any) bool { return v.(object)["name"] == "config" }
	pod["volumes"] = slices.DeleteFunc(pod["volumes"].([]any), isConfig)
	manager["volumeMounts"] = slices.DeleteFunc(manager["volumeMounts"].([]any), isConfig)
	if len(b.deployments) > 0 {
		return errors.New("a second Deployment")
	}
	b.deployments = append(b.deployments, object{"name": deployment, "spec": spec})
	return nil
}

// addWebhooks adds the webhooks without their match conditions, which OLM does not know: the
// API server then also calls them where nothing is to be decided.
func (b *bundle) addWebhooks(o object) {
	kind := strings.TrimSuffix(o["kind"].(string), "WebhookConfiguration") + "AdmissionWebhook"
	for _, w := range o["webhooks"].([]any) {
		hook := w.(object)
		described := object{
			"type": kind, "generateName": hook["name"], "deploymentName": deployment, "containerPort": 443, "targetPort": 9443,
			"webhookPath": hook["clientConfig"].(object)["service"].(object)["path"],
		}
		for _, field := range []string{"rules", "failurePolicy", "matchPolicy", "objectSelector", "sideEffects", "timeoutSeconds", "admissionReviewVersions", "reinvocationPolicy"} {
			if v, ok := hook[field]; ok {
				described[field] = v
			}
		}
		b.webhooks = append(b.webhooks, described)
	}
}

func (b *bundle) files() map[string][]byte {
	files := map[string][]byte{
		"metadata/annotations.yaml": encodeYAML(object{"annotations": object{
			"operators.operatorframework.io.bundle.mediatype.v1":       "registry+v1",
			"operators.operatorframework.io.bundle.manifests.v1":       "manifests/",
			"operators.operatorframework.io.bundle.metadata.v1":        "metadata/",
			"operators.operatorframework.io.bundle.package.v1":         title,
			"operators.operatorframework.io.bundle.channels.v1":        "stable",
			"operators.operatorframework.io.bundle.channel.default.v1": "stable",
		}}),
		"manifests/platform-operator.clusterserviceversion.yaml": encodeYAML(b.clusterServiceVersion()),
		"rbac.yaml": encodeYAML(slices.Concat(b.rbac, b.bindings())...),
	}
	for _, crd := range b.crds {
		files["manifests/"+crd["metadata"].(object)["name"].(string)+".yaml"] = encodeYAML(crd)
	}
	return files
}

// bindings are the permissions of the account as RBAC. The account is that of the namespace
// default unless the file is edited, because a ClusterRoleBinding has to name one.
func (b *bundle) bindings() []object {
	const group = "rbac.authorization.k8s.io"
	rule := func(kind, name string, fields object) object {
		o := object{"apiVersion": group + "/v1", "kind": kind, "metadata": object{"name": name}}
		maps.Copy(o, fields)
		return o
	}
	bind := func(kind, name string) object {
		return object{
			"roleRef":  object{"apiGroup": group, "kind": kind, "name": name},
			"subjects": []any{object{"kind": "ServiceAccount", "name": deployment, "namespace": "default"}},
		}
	}
	return []object{
		rule("ClusterRole", "platform-operator-manager", object{"rules": b.clusterPermissions}),
		rule("ClusterRoleBinding", "platform-operator-manager", bind("ClusterRole", "platform-operator-manager")),
		rule("Role", deployment, object{"rules": b.permission}),
		rule("RoleBinding", deployment, bind("Role", deployment)),
	}
}

func (b *bundle) clusterServiceVersion() object {
	var owned []any
	for _, crd := range b.crds {
		spec := crd["spec"].(object)
		for _, v := range spec["versions"].([]any) {
			version := v.(object)
			kind := spec["names"].(object)["kind"]
			described, _ := version["schema"].(object)["openAPIV3Schema"].(object)["description"].(string)
			owned = append(owned, object{
				"name": crd["metadata"].(object)["name"], "version": version["name"], "kind": kind, "displayName": kind, "description": described,
			})
		}
	}
	var modes []any
	for _, mode := range []string{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		modes = append(modes, object{"type": mode, "supported": true})
	}
	account := func(rules []any) []any { return []any{object{"serviceAccountName": deployment, "rules": rules}} }
	spec := object{
		"displayName": "Platform operator", "description": description + ". See " + b.source + ".", "version": b.version, "maturity": "alpha",
		"minKubeVersion": "1.34.0", "provider": object{"name": "Platform operator authors", "url": b.source}, "links": []any{object{"name": "Source", "url": b.source}},
		"installModes": modes, "webhookdefinitions": b.webhooks, "customresourcedefinitions": object{"owned": owned},
		"install": object{"strategy": "deployment", "spec": object{
			"deployments": b.deployments, "permissions": account(b.permission), "clusterPermissions": account(b.clusterPermissions),
		}},
	}
	if b.replaces != "" {
		spec["replaces"] = title + ".v" + b.replaces
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": object{"name": title + ".v" + b.version, "annotations": object{"capabilities": "Deep Insights", "repository": b.source}},
		"spec":     spec,
	}
}

// encodeYAML returns YAML documents with sorted keys.
func encodeYAML(objects ...object) []byte {
	var all [][]byte
	for _, o := range objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			panic(err) // only what was decoded, maps, lists and strings
		}
		all = append(all, raw)
	}
	return bytes.Join(all, []byte("---\n"))
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	deployment = "platform-operator"
	channel    = "stable"
	// The Operator Lifecycle Manager makes a Service and a certificate for each Deployment
	// with webhooks, and gives both these names (pkg/controller/install/certresources.go of
	// operator-lifecycle-manager v0.28.0).
	olmSecret = deployment + "-service-cert"
)

// object is a Kubernetes object.
type object = map[string]any

// writeOLM writes to dist/olm the bundle for the Operator Lifecycle Manager, as folders, made
// of the objects of install.yaml, and the file-based catalog catalog.yaml, which contains it.
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

	crds, webhooks                 []object
	deployments                    []any
	clusterPermissions, permission []any // rules
}

// add sorts an object of install.yaml in. What OLM makes itself is left out: the namespace,
// the Service and the certificate of webhooks, the account, and roles for users.
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
	csv := b.clusterServiceVersion()
	files := map[string][]byte{
		"metadata/annotations.yaml": encodeYAML(object{"annotations": object{
			"operators.operatorframework.io.bundle.mediatype.v1":       "registry+v1",
			"operators.operatorframework.io.bundle.manifests.v1":       "manifests/",
			"operators.operatorframework.io.bundle.metadata.v1":        "metadata/",
			"operators.operatorframework.io.bundle.package.v1":         title,
			"operators.operatorframework.io.bundle.channels.v1":        channel,
			"operators.operatorframework.io.bundle.channel.default.v1": channel,
		}}),
		"manifests/platform-operator.clusterserviceversion.yaml": encodeYAML(csv),
		"catalog.yaml": encodeYAML(b.catalog(csv)...),
	}
	for _, crd := range b.crds {
		files["manifests/"+crd["metadata"].(object)["name"].(string)+".yaml"] = encodeYAML(crd)
	}
	return files
}

// catalog returns the package, its channel and the bundle as opm serves them. The bundle is
// inside, so that no image of it has to be published and unpacked.
func (b *bundle) catalog(csv object) []object {
	name := csv["metadata"].(object)["name"]
	property := func(kind string, value object) object { return object{"type": kind, "value": value} }
	properties := []any{property("olm.package", object{"packageName": title, "version": b.version})}
	for _, o := range append([]object{csv}, b.crds...) {
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err) // it was decoded
		}
		properties = append(properties, property("olm.bundle.object", object{"data": raw}))
	}
	for _, crd := range b.crds {
		spec := crd["spec"].(object)
		for _, v := range spec["versions"].([]any) {
			gvk := object{"group": spec["group"], "kind": spec["names"].(object)["kind"], "version": v.(object)["name"]}
			properties = append(properties, property("olm.gvk", gvk))
		}
	}
	entry := object{"name": name}
	if earlier, ok := csv["spec"].(object)["replaces"]; ok {
		entry["replaces"] = earlier
	}
	return []object{
		{"schema": "olm.package", "name": title, "defaultChannel": channel},
		{"schema": "olm.channel", "name": channel, "package": title, "entries": []any{entry}},
		{"schema": "olm.bundle", "name": name, "package": title, "properties": properties},
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

//go:build e2e

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/platform-operator/platform-operator/pkg/testkit/rbac"
)

// operatorUser is the user name of the operator in the audit log.
const operatorUser = "system:serviceaccount:" + operatorNamespace + ":" + operatorName

// wholeSuite reports whether all tests of make campaign-e2e were requested.
func wholeSuite() bool {
	for _, f := range []string{"test.run", "test.skip", "test.list"} {
		if v := flag.Lookup(f); v != nil && v.Value.String() != "" {
			return false
		}
	}
	return os.Getenv("CAMPAIGN") == "e2e"
}

// permission allows one verb on one resource, or, with a name, only on
// that object.
type permission struct{ group, resource, verb, name string }

func (r permission) String() string {
	s := r.verb + " " + r.resource
	if r.group != "" {
		s += "." + r.group
	}
	if r.name != "" {
		s += " " + r.name
	}
	return s
}

// usedInCampaigns are the permissions that only tests of make campaign-operator use.
var usedInCampaigns = []permission{
	{"", "nodes", "get", ""},
	{"", "secrets", "create", "platform-operator-webhook-cert"},
	{"coordination.k8s.io", "leases", "create", ""},
}

// comparePermissions compares the permissions of the operator's account with its
// requests since began. The table contains each permission and how often it was
// used.
func comparePermissions(ctx context.Context, began time.Time) (table string, err error) {
	granted, err := grantedPermissions(ctx)
	if err != nil {
		return "", err
	}
	if len(granted) < 80 {
		return "", fmt.Errorf("only %d permissions are granted: the comparison sees nothing", len(granted))
	}
	asked, refused, err := askedFor(ctx, began)
	if err != nil {
		return "", err
	}
	used := map[permission]int{}
	var foreign, unused []string
	for r, n := range asked {
		covered := false
		for _, of := range []permission{r, {r.group, r.resource, r.verb, ""}} {
			if _, ok := granted[of]; ok && !covered {
				used[of] += n
				covered = true
			}
		}
		if !covered {
			foreign = append(foreign, r.String())
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "permission\tgranted by\ttimes used")
	for _, r := range slices.SortedFunc(maps.Keys(granted), func(a, b permission) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb), cmp.Compare(a.name, b.name))
	}) {
		fmt.Fprintf(w, "%s\t%s\t%d\n", r, granted[r], used[r])
		if used[r] == 0 && !slices.Contains(usedInCampaigns, r) {
			unused = append(unused, r.String())
		}
	}
	fmt.Fprintf(w, "%d permissions\t\t%d\n", len(granted), len(used))
	_ = w.Flush() // into memory
	var errs []error
	for what, list := range map[string][]string{
		"granted and never used":             unused,
		"refused":                            refused,
		"used, and not granted by the chart": foreign,
	} {
		if len(list) > 0 {
			slices.Sort(list)
			errs = append(errs, fmt.Errorf("%s: %s", what, strings.Join(list, ", ")))
		}
	}
	return b.String(), errors.Join(errs...)
}

// grantedPermissions returns the permissions of the operator's account, each with the
// role that grants it.
func grantedPermissions(ctx context.Context) (map[permission]string, error) {
	out, err := run(ctx, "", "kubectl", "get", "clusterrolebindings,rolebindings,clusterroles,roles", "-A", "-o", "json")
	if err != nil {
		return nil, err
	}
	var all struct {
		Items []struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			RoleRef  struct{ Kind, Name string }
			Subjects []struct{ Kind, Name, Namespace string }
			Rules    []rbacv1.PolicyRule
		}
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("reading roles: %w", err)
	}
	bound := map[[3]string]bool{} // kind, namespace, name of roles
	for _, b := range all.Items {
		for _, s := range b.Subjects {
			if s.Kind == "ServiceAccount" && s.Namespace == operatorNamespace && s.Name == operatorName {
				ns := ""
				if b.RoleRef.Kind == "Role" {
					ns = b.Metadata.Namespace
				}
				bound[[3]string{b.RoleRef.Kind, ns, b.RoleRef.Name}] = true
			}
		}
	}
	granted := map[permission]string{}
	for _, role := range all.Items {
		if !bound[[3]string{role.Kind, role.Metadata.Namespace, role.Metadata.Name}] {
			continue
		}
		for x := range rbac.Each(role.Rules) {
			granted[permission{x.Group, x.Resource, x.Verb, x.Name}] = role.Kind + " " + role.Metadata.Name
		}
	}
	return granted, nil
}

// askedFor returns, from the audit log, the permissions that the operator's
// requests needed, and the requests that it was not permitted to send.
func askedFor(ctx context.Context, began time.Time) (asked map[permission]int, refused []string, err error) {
	out, err := run(ctx, "", "../bin/cluster", "audit")
	if err != nil {
		return nil, nil, err
	}
	// The log is rotated in the same folder.
	files, err := filepath.Glob(filepath.Join(filepath.Dir(strings.TrimSpace(out)), "*.log"))
	if err != nil {
		return nil, nil, err
	}
	asked = map[permission]int{}
	for _, name := range files {
		more, err := askedIn(name, began, asked)
		if err != nil {
			return nil, nil, err
		}
		refused = append(refused, more...)
	}
	return asked, refused, nil
}

// unreadable contains the names of the watched namespaces that a test deleted: the
// operator's permissions there are deleted with them.
var unreadable sync.Map

// replaced contains, by the name of a pod of the operator, the time at which a test
// changed the permissions. Helm changes them before the pods are replaced, so such a
// pod may be refused what its configuration requests, for example if one of its
// watches ends.
var replaced sync.Map

// changePermissions is called before a test changes the operator's permissions, and
// with them its pods.
func changePermissions(ctx context.Context) error {
	out, err := run(ctx, "", "kubectl", "-n", operatorNamespace, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	for pod := range strings.FieldsSeq(out) {
		replaced.Store(pod, time.Now())
	}
	return nil
}

func askedIn(file string, began time.Time, asked map[permission]int) (refused []string, err error) {
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e auditEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.User.Username != operatorUser || e.ObjectRef == nil || e.RequestReceivedTimestamp.Before(began) {
			continue
		}
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
			if _, expected := unreadable.Load(e.ObjectRef.Namespace); expected {
				continue
			}
			if since, ok := replaced.Load(e.pod()); ok && !e.RequestReceivedTimestamp.Before(since.(time.Time)) {
				continue
			}
			refused = append(refused, fmt.Sprintf("%s in %q by %s", e.permission(), e.ObjectRef.Namespace, e.pod()))
			continue
		}
		// A watch is logged when it begins and when it ends; the second entry
		// changes only the count.
		for _, r := range e.permissions() {
			asked[r]++
		}
	}
	return refused, lines.Err()
}

// auditEvent contains the fields of a line of the audit log that are needed.
type auditEvent struct {
	Verb, RequestURI string
	User             struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef                *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	Annotations              map[string]string
	RequestObject            json.RawMessage
}

// pod returns the name of the pod whose token was used.
func (e auditEvent) pod() string {
	return strings.Join(e.User.Extra["authentication.kubernetes.io/pod-name"], " ")
}

func (e auditEvent) permission() permission {
	r := permission{e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.Verb, e.ObjectRef.Name}
	if e.ObjectRef.Subresource != "" {
		r.resource += "/" + e.ObjectRef.Subresource
	}
	return r
}

// permissions returns the permissions that a request needs. An apply that creates an
// object is sent as a patch, and needs both permissions. If
// OwnerReferencesPermissionEnforcement is enabled, an owner reference that blocks
// deletion needs the permission to update the owner's finalizers, and removing one
// needs the permission to delete the child.
func (e auditEvent) permissions() []permission {
	all := []permission{e.permission()}
	if e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true") {
		// It begins with a list, which has to be requested separately from an older
		// API server.
		listed := e.permission()
		listed.verb = "list"
		all = append(all, listed)
	}
	if e.Verb == "patch" && e.ResponseStatus.Code == 201 {
		created := e.permission()
		created.verb = "create"
		all = append(all, created)
	}
	var sent struct {
		Metadata map[string]json.RawMessage
	}
	if json.Unmarshal(e.RequestObject, &sent) != nil {
		return all // it is a list of changes, none of which affects owners
	}
	raw, stated := sent.Metadata["ownerReferences"]
	var owners []struct {
		APIVersion, Kind   string
		BlockOwnerDeletion bool
	}
	if !stated || json.Unmarshal(raw, &owners) != nil {
		return all
	}
	if len(owners) == 0 {
		released := e.permission()
		released.verb, released.name = "delete", ""
		all = append(all, released)
	}
	for _, o := range owners {
		if group, _, _ := strings.Cut(o.APIVersion, "/"); o.BlockOwnerDeletion {
			all = append(all, permission{group, strings.ToLower(o.Kind) + "s/finalizers", "update", ""})
		}
	}
	return all
}

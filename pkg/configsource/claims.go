package configsource

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// OwnedConfigMaps returns the ConfigMaps that belong to owner: current and earlier
// snapshots of sources, and all others. They are read from the cache of
// children, by naming.IndexOwner.
func OwnedConfigMaps(ctx context.Context, ours client.Reader, owner client.Object) ([]*corev1.ConfigMap, error) {
	var all corev1.ConfigMapList
	if err := ours.List(ctx, &all, client.InNamespace(owner.GetNamespace()), client.MatchingFields{naming.IndexOwner: string(owner.GetUID())}); err != nil {
		return nil, fmt.Errorf("listing the ConfigMaps of %q: %w", owner.GetName(), err)
	}
	snapshots := make([]*corev1.ConfigMap, 0, len(all.Items))
	for i := range all.Items {
		snapshots = append(snapshots, &all.Items[i])
	}
	return snapshots, nil
}

// version identifies one state of one object.
type version struct {
	uid types.UID
	rv  string
}

func versionOf(o client.Object) version { return version{o.GetUID(), o.GetResourceVersion()} }

func parseVersion(s string) version {
	uid, rv, _ := strings.Cut(s, "/")
	return version{types.UID(uid), rv}
}

func (v version) String() string { return string(v.uid) + "/" + v.rv }

// notBefore reports whether v is w or a later state of the same object.
func (v version) notBefore(w version) bool {
	if v.uid != w.uid {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(v.rv, w.rv)
	return v.rv == w.rv || err == nil && c > 0
}

// claim is the statement of a snapshot about its content: "<name>@<version>" if
// it holds all of a source, or "<name>@<version>#<key>=<file>" if its own key
// file has the value of key in the source. Names, versions and keys contain
// none of these separators.
type claim struct {
	name      string
	version   version
	key, file string // "" for the whole source
	copy      *corev1.ConfigMap
}

func (c claim) String() string {
	s := c.name + "@" + c.version.String()
	if c.key != "" {
		s += "#" + c.key + "=" + c.file
	}
	return s
}

// claimsOf returns the claims of owner's snapshots. A mutable ConfigMap is
// ignored, because it may have been modified.
func claimsOf(owner client.Object, snapshots []*corev1.ConfigMap) []claim {
	var all []claim
	for _, cp := range snapshots {
		if cp.Immutable == nil || !*cp.Immutable || naming.OwnerUID(cp) != owner.GetUID() {
			continue
		}
		for s := range strings.SplitSeq(cp.Annotations[naming.AnnotationSource], ",") {
			name, rest, ok := strings.Cut(s, "@")
			v, part, isPart := strings.Cut(rest, "#")
			key, file, hasFile := strings.Cut(part, "=")
			if ok && isPart == hasFile {
				all = append(all, claim{name: name, version: parseVersion(v), key: key, file: file, copy: cp})
			}
		}
	}
	return all
}

// fromCopies returns the wanted part of a source in the given version, or in
// the latest version that a snapshot has, if that is later: the cache that the
// version was read from may be stale, for example after a restart, and an older
// version would revert a rollout.
func fromCopies(claims []claim, name string, at version, w want) (*corev1.ConfigMap, version, bool) {
	var content *corev1.ConfigMap
	best := at
	for _, c := range claims {
		if c.name != name || !c.version.notBefore(best) {
			continue
		}
		if found, ok := assemble(claims, name, c.version, w); ok {
			content, best = found, c.version
		}
	}
	return content, best, content != nil
}

// latestCopy returns the wanted part of the latest version of a source that a
// snapshot has. Only this version may be used instead of a newer one with the
// same content: while the cache is stale, fromCopies prefers a later version to
// an earlier one.
func latestCopy(claims []claim, name string, at version, w want) (*corev1.ConfigMap, version, bool) {
	var latest version
	for _, c := range claims {
		if c.name == name && c.version.uid == at.uid && (latest.uid == "" || c.version.notBefore(latest)) {
			latest = c.version
		}
	}
	content, ok := assemble(claims, name, latest, w)
	return content, latest, ok && latest.uid != ""
}

// sameContent reports whether two ConfigMaps have the same content. An empty map
// is equal to none.
func sameContent(a, b *corev1.ConfigMap) bool {
	return maps.Equal(a.Data, b.Data) && maps.EqualFunc(a.BinaryData, b.BinaryData, bytes.Equal)
}

// assemble collects the wanted part of one version of a source from the
// snapshots.
func assemble(claims []claim, name string, v version, w want) (*corev1.ConfigMap, bool) {
	parts, found := &corev1.ConfigMap{}, 0
	for _, c := range claims {
		if c.name == name && c.version == v && c.key == "" {
			return w.of(c.copy), true
		}
	}
	for _, key := range w.keys {
		for _, c := range claims {
			if c.name == name && c.version == v && c.key == key && put(parts, key, c.copy, c.file) {
				found++
				break
			}
		}
	}
	return parts, !w.all && found == len(w.keys)
}

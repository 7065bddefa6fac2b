// Package rbac expands the rules of roles, for tests of the operator's
// permissions.
package rbac

import (
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Permission allows one verb on one resource, or, with a name, only on
// that object.
type Permission struct{ Group, Resource, Name, Verb string }

// Each yields every permission that the rules grant.
func Each(rules []rbacv1.PolicyRule) iter.Seq[Permission] {
	return func(yield func(Permission) bool) {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, g := range rule.APIGroups {
				for _, r := range rule.Resources {
					for _, n := range names {
						for _, v := range rule.Verbs {
							if !yield(Permission{g, r, n, v}) {
								return
							}
						}
					}
				}
			}
		}
	}
}
